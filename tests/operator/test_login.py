"""Ways to the API server: a kubeconfig, or the pod's account; tokens are read for each call."""

import pytest
import yaml
from aiohttp import web

from sharemesh.serve.exit_codes import ExitCode, StartError
from sharemesh_operator.cluster.kube import Kube, KubeError, find_login


def kubeconfig(folder, user, **cluster):
    tree = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "clusters": [{"name": "here", "cluster": {"server": "http://127.0.0.1:1/", **cluster}}],
        "users": [{"name": "me", "user": user}],
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(tree))
    return path


def token_of(login):
    return login().as_http_headers().get("Authorization")


def test_a_renewed_token_file_is_read_again(tmp_path):
    file = tmp_path / "token"
    file.write_text("one\n")
    login = find_login(kubeconfig(tmp_path, {"tokenFile": str(file)}), {})
    assert token_of(login) == "Bearer one"
    file.write_text("two\n")
    assert token_of(login) == "Bearer two"


async def test_each_call_carries_the_token_as_it_is_now(tmp_path):
    seen = []

    async def serve(request):
        seen.append(request.headers.get("Authorization"))
        return web.json_response({"metadata": {"name": "one"}})

    application = web.Application()
    application.router.add_route("*", "/{tail:.*}", serve)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    file = tmp_path / "token"
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    login = find_login(kubeconfig(tmp_path, {"tokenFile": str(file)}, server=url), {})
    file.write_text("one")
    async with Kube(login, "here") as kube:
        await kube.get("Pod", "one")
        file.write_text("two")
        await kube.get("Pod", "one")
        file.unlink()
        with pytest.raises(KubeError, match="token") as failed:
            await kube.get("Pod", "one")
    await runner.cleanup()
    assert seen == ["Bearer one", "Bearer two"]
    assert failed.value.status == 0


def test_files_of_a_kubeconfig_lie_beside_it_and_data_inside_it_wins(tmp_path):
    given = {"client-certificate": "me.crt", "client-key": "me.key", "client-key-data": "a2V5"}
    found = find_login(kubeconfig(tmp_path, given, **{"certificate-authority": "ca.crt"}), {})()
    assert found.server == "http://127.0.0.1:1"
    assert (found.ca_path, found.certificate_path) == (tmp_path / "ca.crt", tmp_path / "me.crt")
    assert (found.private_key_path, found.private_key_data) == (None, "a2V5")


def test_the_variable_names_a_kubeconfig_where_no_flag_does(tmp_path):
    path = kubeconfig(tmp_path, {"token": "mine"})
    assert token_of(find_login(None, {"KUBECONFIG": str(path)})) == "Bearer mine"


@pytest.mark.parametrize("text", ["", "a: [", "current-context: x\ncontexts: []\n"])
def test_a_kubeconfig_that_cannot_be_used_is_named(tmp_path, text):
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(StartError, match=r"kubeconfig .*config cannot be used") as refused:
        find_login(path, {})
    assert refused.value.code is ExitCode.SETTINGS


def test_outside_of_a_pod_a_kubeconfig_is_asked_for():
    with pytest.raises(StartError, match="give --kubeconfig"):
        find_login(None, {})
