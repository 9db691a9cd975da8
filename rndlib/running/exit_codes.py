"""Exit codes of a run that a batch or a scheduler tells apart; as in sysexits.h and timeout(1)."""

KERNEL_DIED = 70
UNWRITABLE = 74
BUSY = 75
TOO_LONG = 124
UNREAD = 141  # 128 and SIGPIPE, as a shell says it
