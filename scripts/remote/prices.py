"""What a call costs by config/prices.yaml. Needs no package beyond those that read it."""

from typing import Any

from scripts.lib.errors import ConfigError
from scripts.lib.text import did_you_mean

MILLION = 1e6


def cost(
    prices: dict[str, Any], model: str, tokens_in: int, tokens_out: int, cached: int = 0, batch: bool = False
) -> float | None:
    """Dollars of one call, never less for more tokens; None where the model has no price.

    Args:
        prices: content of config/prices.yaml.
        model: the id that the server knows it by.
        tokens_in: of the whole prompt, the ``cached`` ones among them.
        tokens_out: of the reply, thoughts included.
        batch: it was asked through the Batch API. Then nothing is taken off for the cache: not every model has that.
    """
    listed = prices["models"].get(model)
    if listed is None:
        return None
    reached = [longer for longer in listed.get("over", []) if tokens_in > longer["tokens"]]
    price = max(reached, key=lambda longer: longer["tokens"], default=listed)
    factor, cached = (listed.get("batch", 1.0), 0) if batch else (1.0, min(cached, tokens_in))
    billed = (tokens_in - cached) * price["in"] + cached * price.get("cached", price["in"])
    dollars: float = factor * (billed + tokens_out * price["out"]) / MILLION
    return dollars


def require(prices: dict[str, Any], model: str) -> None:
    """Refuse a model without a price: its calls could not be held against a budget in dollars.

    Raises:
        ConfigError: names the file, and both ways out.
    """
    known = prices["models"]
    if model not in known:
        raise ConfigError(
            f"config/prices.yaml: no price of '{model}'{did_you_mean(model, known)}; add what its vendor bills, or set "
            "budget.dollars in config/remote.yaml to null for no limit"
        )
