//! `${VAR}` in configuration files.

/// Why a text cannot be substituted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SubstituteError {
    /// The variable is not set, and no default was given.
    NotSet(String),
    /// `${` without `}`.
    NotClosed,
    /// The name is not one.
    BadName(String),
}

impl std::fmt::Display for SubstituteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotSet(name) => {
                write!(f, "the environment variable {name} is not set (write ${{{name}:-DEFAULT}} for a default)")
            }
            Self::NotClosed => f.write_str("`${` is not closed with `}` (write $${ for the characters themselves)"),
            Self::BadName(name) => write!(f, "`{name}` is no name of an environment variable"),
        }
    }
}

/// Puts values in the place of `${VAR}` and `${VAR:-DEFAULT}`; `$${` stands for `${`. What was put in is not looked at again.
pub(crate) fn substitute(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, SubstituteError> {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, opening) = rest.split_at(at);
        let after = &opening[2..];
        if let Some(escaped) = before.strip_suffix('$') {
            result.push_str(escaped);
            result.push_str("${");
            rest = after;
            continue;
        }
        result.push_str(before);
        let (inside, after) = after.split_once('}').ok_or(SubstituteError::NotClosed)?;
        result.push_str(&value(inside, variable)?);
        rest = after;
    }
    result.push_str(rest);
    Ok(result)
}

fn value(inside: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, SubstituteError> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    let well_formed = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !well_formed {
        return Err(SubstituteError::BadName(name.to_owned()));
    }
    variable(name)
        .filter(|value| !value.is_empty())
        .or_else(|| default.map(str::to_owned))
        .ok_or_else(|| SubstituteError::NotSet(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn with_a(text: &str) -> Result<String, SubstituteError> {
        substitute(text, &|name| (name == "A").then(|| "${B}".to_owned()))
    }

    #[test]
    fn variables_defaults_and_escapes() {
        assert_eq!(with_a("x${A}y").unwrap(), "x${B}y");
        assert_eq!(with_a("${C:-d}$5").unwrap(), "d$5");
        assert_eq!(with_a("${A:-d}").unwrap(), "${B}");
        assert_eq!(with_a("$${A}").unwrap(), "${A}");
        assert_eq!(with_a("${C:-}").unwrap(), "");
    }

    #[test]
    fn errors_name_the_cause() {
        assert_eq!(with_a("${C}"), Err(SubstituteError::NotSet("C".into())));
        assert_eq!(with_a("${A"), Err(SubstituteError::NotClosed));
        assert_eq!(with_a("${}"), Err(SubstituteError::BadName(String::new())));
        assert_eq!(with_a("${a b}"), Err(SubstituteError::BadName("a b".into())));
    }

    proptest! {
        #[test]
        fn any_text_is_substituted_or_refused(text in "[${}A:\\-x]{0,40}") {
            let _ = with_a(&text);
        }

        #[test]
        fn a_text_without_the_sign_stays(text in "[^$]{0,60}") {
            prop_assert_eq!(with_a(&text), Ok(text.clone()));
        }
    }
}
