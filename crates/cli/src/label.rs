//! Who this machine is to others: `USER@HOST`, as conflict names carry it.

/// Longest user or host name in a label, in characters: both, and the `@`, fit into the 64 bytes of a label.
const PART_LEN_MAX: usize = 20;

/// `$WAYFS_USER` or `$USER`, at `$WAYFS_HOST` or the host's name up to its first dot.
pub(crate) fn of_this_machine() -> String {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let user = variable("WAYFS_USER").or_else(|| variable("USER")).or_else(|| variable("LOGNAME"));
    let nodename = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let default_user = if rustix::process::geteuid().is_root() { "root" } else { "user" };
    join(user.as_deref().unwrap_or(default_user), &variable("WAYFS_HOST").unwrap_or(nodename))
}

fn join(user: &str, host: &str) -> String {
    let part = |text: &str, otherwise: &str| {
        let clean: String =
            text.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).take(PART_LEN_MAX).collect();
        if clean.is_empty() { otherwise.to_owned() } else { clean }
    };
    format!("{}@{}", part(user, "user"), part(host.split('.').next().unwrap_or_default(), "host"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_short_and_safe_in_file_names() {
        assert_eq!(join("ann", "lap.example.org"), "ann@lap");
        assert_eq!(join("a/n n", ""), "ann@host");
        assert_eq!(join(&"x".repeat(99), &"y".repeat(99)).len(), 2 * PART_LEN_MAX + 1);
        assert!(of_this_machine().contains('@'));
    }
}
