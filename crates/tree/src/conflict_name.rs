//! Names of conflict copies: `BASE.conflict-YYYYMMDD-HHMMSS-USER@HOST.EXT`.
//!
//! The extension stays last, so that programs still know what the file is; a
//! leading dot stays first, so that a hidden file stays hidden.

use wayfs_types::{Name, WallTime};

/// What stands between the base and the rest.
const MARK: &[u8] = b".conflict-";
/// A time in a name, and the hyphen behind it: `YYYYMMDD-HHMMSS-`.
const TIME_LEN: usize = 16;
/// Longest extension that is kept; more is a sentence with a dot in it.
const EXTENSION_LEN_MAX: usize = 16;
/// Longest label that goes into a name: the longest that an origin may have.
const LABEL_LEN_MAX: usize = 64;
/// Extensions of compression, before which another one belongs to the extension, too.
const COMPRESSIONS: [&[u8]; 7] = [b".gz", b".bz2", b".xz", b".zst", b".lz4", b".Z", b".lz"];

/// The conflict name of a name. `suffix` tells apart copies of one second and one writer.
///
/// The base is shortened, at a character's boundary if it is UTF-8, so that the
/// whole fits [`Name::LEN_MAX`].
pub(crate) fn conflict_name(name: &Name, time: WallTime, label: &str, suffix: &str) -> Name {
    let (base, extension) = split(name.as_bytes());
    let mut middle = MARK.to_vec();
    middle.extend_from_slice(time.compact().as_bytes());
    middle.push(b'-');
    middle.extend(clean_label(label));
    middle.extend_from_slice(suffix.as_bytes());
    let room = Name::LEN_MAX.saturating_sub(middle.len() + extension.len());
    let mut bytes = shorten(base, room).to_vec();
    bytes.extend(middle);
    bytes.extend_from_slice(extension);
    Name::new(bytes).expect("not empty, at most 255 bytes by the choice of room, no separator in any part")
}

/// Whether `candidate` is a conflict name that was made from `name` for a writer with this label.
pub(crate) fn is_conflict_name_of(candidate: &Name, name: &Name, label: &str) -> bool {
    let (base, extension) = split(name.as_bytes());
    let Some(front) = candidate.as_bytes().strip_suffix(extension) else {
        return false;
    };
    // The mark of the copy is the last one: a copy's name may itself meet another.
    let Some(at) = front.windows(MARK.len()).rposition(|part| part == MARK) else {
        return false;
    };
    base.starts_with(&front[..at]) && is_labelled(&front[at + MARK.len()..], label)
}

/// Whether what follows the mark of a conflict name is a time and a label, and perhaps a suffix.
fn is_labelled(rest: &[u8], label: &str) -> bool {
    let label: Vec<u8> = clean_label(label).collect();
    let suffix = rest.get(TIME_LEN..).and_then(|rest| rest.strip_prefix(label.as_slice()));
    suffix.is_some_and(|suffix| suffix.is_empty() || suffix.starts_with(b"-"))
}

/// Base and extension (with its dot).
fn split(name: &[u8]) -> (&[u8], &[u8]) {
    let Some(dot) = last_dot(name) else {
        return (name, b"");
    };
    let (base, extension) = name.split_at(dot);
    if !COMPRESSIONS.contains(&extension) {
        return (base, extension);
    }
    match last_dot(base) {
        Some(inner) => name.split_at(inner),
        None => (base, extension),
    }
}

/// Where the extension begins: at the last dot that is not the first byte and not too far from the end.
fn last_dot(name: &[u8]) -> Option<usize> {
    let dot = name.iter().rposition(|byte| *byte == b'.')?;
    let len = name.len() - dot;
    let is_extension = name[..dot].iter().any(|byte| *byte != b'.') && (2..=EXTENSION_LEN_MAX).contains(&len);
    is_extension.then_some(dot)
}

/// A label without what a name must not hold. Labels are checked where origins
/// are granted; this holds for whatever a peer sends.
fn clean_label(label: &str) -> impl Iterator<Item = u8> {
    label.bytes().take(LABEL_LEN_MAX).map(|byte| match byte {
        0..=b' ' | b'/' | 127.. => b'_',
        other => other,
    })
}

fn shorten(base: &[u8], room: usize) -> &[u8] {
    if base.len() <= room {
        return base;
    }
    let mut end = room;
    // Bytes 10xxxxxx continue a UTF-8 character of at most four bytes.
    while end > 0 && room - end < 3 && base[end] & 0b1100_0000 == 0b1000_0000 {
        end -= 1;
    }
    &base[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn made(name: &str) -> String {
        conflict_name(&Name::try_from(name).unwrap(), WallTime::EPOCH, "ann@reed", "").to_string()
    }

    #[test]
    fn the_extension_stays_last() {
        assert_eq!(made("report.txt"), "report.conflict-19700101-000000-ann@reed.txt");
        assert_eq!(made("Makefile"), "Makefile.conflict-19700101-000000-ann@reed");
    }

    #[test]
    fn a_compressed_archive_keeps_both_extensions() {
        assert_eq!(made("src.tar.gz"), "src.conflict-19700101-000000-ann@reed.tar.gz");
        assert_eq!(made("notes.gz"), "notes.conflict-19700101-000000-ann@reed.gz");
    }

    #[test]
    fn a_hidden_file_stays_hidden() {
        assert_eq!(made(".profile"), ".profile.conflict-19700101-000000-ann@reed");
        assert_eq!(made(".vimrc.bak"), ".vimrc.conflict-19700101-000000-ann@reed.bak");
    }

    #[test]
    fn a_sentence_with_a_dot_has_no_extension() {
        let made = made("He said no. Then he went away for a while");
        assert!(made.ends_with("-ann@reed"), "{made}");
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let made = made(&format!("{}.txt", "ä".repeat(125)));
        assert!(made.len() <= 255 && made.contains("ä.conflict-") && made.ends_with(".txt"), "{made}");
    }

    proptest! {
        #[test]
        fn every_name_has_a_valid_conflict_name_that_is_known_again(
            bytes in proptest::collection::vec(any::<u8>(), 1..256),
            label in "\\PC{0,80}",
            time in any::<i64>(),
            suffix in "(-[0-9]{1,9}\\.[0-9]{1,13}-[0-9]{1,10})?",
        ) {
            if let Ok(name) = Name::new(bytes) {
                let copy = conflict_name(&name, WallTime::from_nanos(time), &label, &suffix);
                prop_assert!(copy.as_bytes().len() <= Name::LEN_MAX);
                // A label may itself hold the mark; such a copy is merely not followed.
                if !label.contains(".conflict-") {
                    prop_assert!(is_conflict_name_of(&copy, &name, &label));
                    let another = format!("x{label}");
                    prop_assert!(!is_conflict_name_of(&copy, &name, &another) || label.starts_with('x'));
                }
            }
        }
    }
}
