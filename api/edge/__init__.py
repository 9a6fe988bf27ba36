"""Edge: what every request passes on its way in, and every answer on its way out.

In:   an ASGI application.
Out:  the same, whose errors are problems (RFC 9457), whose bodies are limited, whose answers carry safe headers, and
which logs and counts each request.
Owns: problem answers, limits of bodies, cross-origin rules, idempotency keys, request logs, metrics.
Does not own: who may call, or what any path does.
"""

from api.edge._idempotency import Idempotency
from api.edge._limits import BodyLimit
from api.edge._metrics import Figures, Metrics
from api.edge._problems import answer_problems
from api.edge._watch import Watch

__all__ = ["BodyLimit", "Figures", "Idempotency", "Metrics", "Watch", "answer_problems"]
