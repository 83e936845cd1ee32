"""Users with passwords, as an administrator sees them."""

import asyncio
from collections.abc import Mapping, Sequence

from sharemesh import methods
from sharemesh.client.admin.codec import Problem, check
from sharemesh.client.admin.router import AdminConnection
from sharemesh.client.errors import optional_error
from sharemesh.client.users import (
    DEFAULT_ITERATIONS,
    PasswordChanges,
    iterations_of,
    user_alteration,
)
from sharemesh.v1 import admin_pb2

_USERS_AT_ONCE = 100


class UserAdministration(AdminConnection):
    """Stores what is kept of passwords, with which clients of Kafka log in."""

    async def alter_user_scram_credentials(
        self, changes: Mapping[str, PasswordChanges], *, iterations: int = DEFAULT_ITERATIONS
    ) -> dict[str, Problem]:
        """Set passwords by user and mechanism, or remove them (None); a user's together or none.

        A password itself is not sent: a key is, as SCRAM derives it.

        Raises:
            IllegalArgumentError: A mechanism, password or number of iterations is not possible.
        """
        problems: dict[str, Problem] = {}
        names = list(changes)
        for first in range(0, len(names), _USERS_AT_ONCE):
            some = names[first : first + _USERS_AT_ONCE]
            alterations = [
                await asyncio.to_thread(user_alteration, each, changes[each], iterations)
                for each in some
            ]
            response = await self._calls.any(
                methods.ALTER_USER_SCRAM_CREDENTIALS,
                admin_pb2.AlterUserScramCredentialsRequest(alterations=alterations),
            )
            for each, found in zip(some, response.results, strict=True):
                problems[each] = optional_error(
                    found.error_code, found.error_message, about=f"user {each}"
                )
        return problems

    async def describe_user_scram_credentials(
        self, names: Sequence[str] = ()
    ) -> dict[str, dict[str, int]]:
        """Return the iterations of users' passwords by user and mechanism; without names, of all.

        A user without a password is left out.

        Raises:
            ServiceError: It was refused.
        """
        response = await self._calls.any(
            methods.DESCRIBE_USER_SCRAM_CREDENTIALS,
            admin_pb2.DescribeUserScramCredentialsRequest(names=names),
        )
        check(response.error_code, response.error_message, "users")
        return {each.name: iterations_of(each) for each in response.results if not each.error_code}
