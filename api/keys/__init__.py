"""Keys: who may call the service, and for what.

In:   a request's ``Authorization`` header, or a signed link's ``expires`` and ``signature``.
Out:  a ``Principal``, or a problem 401 or 403 that names the scope.
Owns: API keys (made, hashed, revoked), the rule for a service without keys, signed links and the key they are signed
with.
Does not own: what a scope is needed for; each route says that.
"""

from api.keys._door import Doorkeeper
from api.keys._links import sign_link
from api.keys._store import SCOPES, any_key, create_key, list_keys, revoke_key

__all__ = ["SCOPES", "Doorkeeper", "any_key", "create_key", "list_keys", "revoke_key", "sign_link"]
