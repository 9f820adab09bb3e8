//! Patterns on paths from a volume's root.

use globset::{GlobBuilder, GlobMatcher};
use std::path::Path;
use wayfs_control::{ControlError, ErrorKind};

/// A pattern: `*`, `?`, `[…]` and `{…,…}` within a name, `**` over directories. One without `/` is matched against the last name, as in
/// ignore files.
pub(crate) struct Pattern {
    matcher: GlobMatcher,
    is_of_names: bool,
}

impl Pattern {
    /// # Errors
    /// [`ErrorKind::Usage`] if it cannot be read.
    pub(crate) fn new(text: &str) -> Result<Self, ControlError> {
        let glob = GlobBuilder::new(text.trim_start_matches('/')).literal_separator(true).build();
        let glob = glob.map_err(|error| {
            let next = "`*` and `?` stand for letters of a name, `**` for directories; put `\\` before a letter that is meant itself.";
            ControlError::new(ErrorKind::Usage, error.to_string(), next)
        })?;
        Ok(Self { matcher: glob.compile_matcher(), is_of_names: !text.contains('/') })
    }

    pub(crate) fn matches(&self, path: &Path) -> bool {
        let relative = path.strip_prefix("/").unwrap_or(path);
        let own_name = relative.file_name().map(Path::new).filter(|_| self.is_of_names);
        self.matcher.is_match(own_name.unwrap_or(relative))
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;
    use std::path::Path;

    fn matches(pattern: &str, path: &str) -> bool {
        Pattern::new(pattern).unwrap().matches(Path::new(path))
    }

    #[test]
    fn patterns_match_as_people_expect() {
        assert!(matches("*.txt", "a/b/notes.txt"));
        assert!(!matches("*.txt", "a/b/notes.txt.bak"));
        assert!(matches("docs/**/*.md", "docs/a/b/c.md"));
        assert!(matches("docs/**/*.md", "docs/c.md"));
        assert!(matches("/docs/**/*.md", "docs/c.md"));
        assert!(!matches("docs/*.md", "docs/a/c.md"));
        assert!(matches("a?c*", "abcdef"));
        assert!(matches("**", "anything/at/all"));
        assert!(matches("**/*.txt", "a.txt"));
        assert!(matches("d/**", "d/e/f"));
        assert!(!matches("a/*", "b/c"));
        assert!(!matches("d/?.c", "d/xy.c"));
        assert!(matches("*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaab"));
    }

    #[test]
    fn a_pattern_that_cannot_be_read_says_what_to_write() {
        let error = Pattern::new("[a").err().unwrap();
        assert!(error.next_step.contains("`**`"), "{error:?}");
    }
}
