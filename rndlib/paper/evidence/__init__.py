"""The evidence for the paper's claims: the claims, the statistics that judge them, and the ledger of verdicts."""
