"""Addresses of pods for clients outside of Kubernetes: a host, and ports that count up."""

from dataclasses import dataclass

from sharemesh.ports.cluster import Role
from sharemesh_operator.resources.spec_fields import key


@dataclass(frozen=True, slots=True)
class External:
    """Addresses for clients outside of Kubernetes; leader n has the port plus n."""

    host: str = key("host")
    service_type: str = key("serviceType", "NodePort")
    leader_port: int = key("shareLeaderPort", 30_400)
    coordinator_port: int = key("groupCoordinatorPort", 30_600)
    bootstrap_port: int = key("bootstrapPort", 30_399)

    def port(self, role: Role) -> int:
        """Return the first port of a role; 0 for one that clients do not call."""
        ports = {
            Role.SHARE_LEADER: self.leader_port,
            Role.GROUP_COORDINATOR: self.coordinator_port,
        }
        return ports.get(role, 0)

    def host_of(self, pod: str) -> str:
        """Return the host of a pod; ``{pod}`` in the template stands for its name."""
        return self.host.replace("{pod}", pod)

    def bootstrap(self, cluster: str) -> str:
        """Return the address for first contacts."""
        return f"{self.host_of(f'{cluster}-bootstrap')}:{self.bootstrap_port}"
