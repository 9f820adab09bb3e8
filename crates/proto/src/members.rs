//! Who belongs to a volume, what each may do, and how much room there is for it.

pub(crate) mod admission;
pub(crate) mod home;
pub(crate) mod home_key;
pub(crate) mod home_word;
pub(crate) mod quota;
pub(crate) mod reports_kept;
pub(crate) mod rooms;
pub(crate) mod seals;
pub(crate) mod usage;
