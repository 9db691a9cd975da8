"""What the notebooks show: the claims, the statistics that judge them, and the ledger of verdicts."""
