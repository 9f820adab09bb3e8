//! Advisory locks of one machine's mount: who holds what, who waits.
