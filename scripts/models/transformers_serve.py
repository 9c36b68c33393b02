"""``transformers serve`` as our jobs need it: ``python -m scripts.models.transformers_serve serve FOLDER ...``

* It asks for the key in KEY_VARIABLE, so that other users of the machine can't have their questions answered.
* It starts where torchvision's compiled parts can't be loaded for want of CUDA's libraries.
* It does not ask the package index for a newer version of itself.
"""

import os
import secrets
from typing import Any

from scripts.lib import torchvision_cpu

KEY_VARIABLE = "VLLM_API_KEY"
"""As vLLM calls it."""


def ask_for_key(key: str) -> None:
    """Have the server refuse every request without ``key``."""
    from fastapi import Request
    from fastapi.responses import JSONResponse
    from transformers.cli.serving import server

    build = server.build_server

    def build_private(*args: Any, **options: Any) -> Any:
        app = build(*args, **options)

        @app.middleware("http")
        async def check(request: Request, go_on: Any) -> Any:
            if secrets.compare_digest(request.headers.get("authorization", "").encode(), f"Bearer {key}".encode()):
                return await go_on(request)
            return JSONResponse({"error": {"message": "wrong or no API key", "code": 401}}, status_code=401)

        return app

    server.build_server = build_private


def decode_without_torchvision() -> None:
    """Have pictures decoded by Pillow where torchvision's decoders can't be loaded."""
    from torchvision import io
    from transformers import image_processing_backends as backends
    from transformers.image_utils import load_image

    if io.image._has_image_ops():
        return
    as_tensor = backends.load_image_as_tensor

    def by_pillow(image: Any, timeout: float | None = None) -> Any:
        return as_tensor(load_image(image, timeout))

    backends.load_image_as_tensor = by_pillow


def main() -> None:
    torchvision_cpu.install()
    from transformers.cli.transformers import app

    decode_without_torchvision()
    ask_for_key(os.environ[KEY_VARIABLE])
    app()


if __name__ == "__main__":
    main()
