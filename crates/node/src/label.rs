//! Names of machines for people.

/// Whether a label may appear in the names of conflict copies.
pub(crate) fn is_label(label: &str) -> bool {
    (1..=64).contains(&label.len()) && label.chars().all(|c| !c.is_control() && c != '/')
}
