"""Pure, typed pieces shared by the stages. Nothing here imports snakemake or torch at module level."""
