//! Patterns on paths: `*` and `?` within a name, `**` over directories.

/// Whether a path from the volume's root matches.
///
/// A pattern without `/` is matched against the last name, as in ignore files.
pub(super) fn matches(pattern: &str, path: &str) -> bool {
    let path = path.trim_start_matches('/');
    if !pattern.contains('/') {
        return name_matches(pattern.as_bytes(), path.rsplit('/').next().unwrap_or(path).as_bytes());
    }
    let pattern: Vec<&str> = pattern.trim_start_matches('/').split('/').collect();
    let path: Vec<&str> = path.split('/').collect();
    parts_match(&pattern, &path)
}

/// Dynamic over both lists, so that no pattern takes exponential time.
fn parts_match(pattern: &[&str], path: &[&str]) -> bool {
    let mut row = vec![false; path.len() + 1];
    row[0] = true;
    for part in pattern {
        let mut next = vec![false; path.len() + 1];
        for at in 0..=path.len() {
            next[at] = if *part == "**" {
                row[at] || (at > 0 && next[at - 1])
            } else {
                at > 0 && row[at - 1] && name_matches(part.as_bytes(), path[at - 1].as_bytes())
            };
        }
        row = next;
    }
    row[path.len()]
}

/// The usual two-pointer match with one point to go back to.
fn name_matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                back = Some((p, n));
                p += 1;
            }
            Some(b'?') => (p, n) = (p + 1, n + 1),
            Some(byte) if *byte == name[n] => (p, n) = (p + 1, n + 1),
            Some(_) | None => match back {
                Some((star, from)) => {
                    back = Some((star, from + 1));
                    (p, n) = (star + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_people_expect() {
        assert!(matches("*.txt", "a/b/notes.txt"));
        assert!(!matches("*.txt", "a/b/notes.txt.bak"));
        assert!(matches("docs/**/*.md", "docs/a/b/c.md"));
        assert!(matches("docs/**/*.md", "docs/c.md"));
        assert!(!matches("docs/*.md", "docs/a/c.md"));
        assert!(matches("a?c*", "abcdef"));
        assert!(matches("**", "anything/at/all"));
        assert!(!matches("a/*", "b/c"));
        assert!(matches("*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaab"));
    }
}
