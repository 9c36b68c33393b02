"""What a plan of Snakemake would cost: `python -m scripts.estimate`, or `make estimate`."""
