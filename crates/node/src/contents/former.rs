//! Former versions of files, as bases for their next ones.
//!
//! The view holds one version of a file, the newest that was heard of. What a neighbour sends or is sent of it is mostly like the
//! version before, if both have that. Which versions went over a slow path lately is remembered here, in memory only: who
//! has forgotten sends the chunk as any other.
//!
//! A file is known by its place, not by its number: most programs that change a file write a new one and give it the name.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wayfs_content::{ContentReader, Entry, Located, NodeSource};
use wayfs_types::{Content, Digest, Place};

/// Most places remembered: half a megabyte.
const PLACES_MAX: usize = 2048;
/// Most versions of one: the present one, the one before, and one that the parent has.
const VERSIONS_MAX: usize = 3;
/// Most chunks named as bases of one.
const BASES_MAX: usize = 2;

/// Who is known to have a version, beside us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    /// It came from a child.
    Child,
    /// It came from the parent, or went there.
    Parent,
}

/// Versions that were fetched, taken or pushed over slow paths, by place.
#[derive(Debug, Default)]
pub(crate) struct Former {
    places: BTreeMap<Place, Vec<(Content, Reach)>>,
    order: VecDeque<Place>,
}

impl Former {
    /// A version of the file at a place is here, or a part of it. Answers the newest of the others.
    pub(crate) fn note(&mut self, place: &Place, content: &Content, reach: Reach) -> Option<Content> {
        if matches!(content, Content::Inline(_)) {
            return None;
        }
        if !self.places.contains_key(place) {
            self.order.push_back(place.clone());
            if self.order.len() > PLACES_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.places.remove(&oldest);
            }
        }
        let versions = self.places.entry(place.clone()).or_default();
        let known = versions.iter().position(|(known, _)| known == content).map(|at| versions.remove(at));
        let reach = known.map_or(reach, |(_, known)| known.max(reach));
        let other = versions.last().map(|(content, _)| content.clone());
        versions.push((content.clone(), reach));
        if versions.len() > VERSIONS_MAX {
            let kept = versions.iter().rposition(|(_, reach)| *reach == Reach::Parent);
            versions.remove(usize::from(kept == Some(0)));
        }
        other
    }

    /// The newest version at a place other than this one that is known to have gone so far.
    pub(crate) fn before(&self, place: &Place, content: &Content, reach: Reach) -> Option<&Content> {
        let versions = self.places.get(place)?;
        versions.iter().rev().find(|(known, at)| known != content && *at >= reach).map(|(known, _)| known)
    }
}

/// Chunks of a former version that a chunk or list node of the present one is probably like: what stood in its place. None in trees
/// of more than one list node.
pub(crate) fn counterparts(former: &Content, present: &Content, digest: Digest, nodes: &NodeSource<'_>) -> Vec<Digest> {
    let (
        Content::Tree { root: old_root, depth: old_depth, .. },
        Content::Tree { root: new_root, depth: new_depth, .. },
    ) = (former, present)
    else {
        return Vec::new();
    };
    if digest == *new_root {
        return if old_depth == new_depth && digest != *old_root { vec![*old_root] } else { Vec::new() };
    }
    if *old_depth > 1 || *new_depth != 1 {
        return Vec::new();
    }
    let (Some(old), Some(new)) = (chunks(former, nodes), chunks(present, nodes)) else { return Vec::new() };
    let Some(place) = new.iter().find(|located| located.entry.digest == digest) else { return Vec::new() };
    let kept: BTreeSet<Digest> = new.iter().map(|located| located.entry.digest).collect();
    let mut replaced: Vec<&Located> = old.iter().filter(|located| !kept.contains(&located.entry.digest)).collect();
    replaced.sort_by_key(|located| located.offset.abs_diff(place.offset));
    replaced.iter().map(|located| located.entry.digest).take(BASES_MAX).collect()
}

/// The chunks of a content of at most one list node, if that is here.
fn chunks(content: &Content, nodes: &NodeSource<'_>) -> Option<Vec<Located>> {
    match content {
        Content::Inline(_) => None,
        Content::Tree { size, root, depth: 0, .. } => {
            Some(vec![Located { offset: 0, entry: Entry { digest: *root, len: *size } }])
        }
        Content::Tree { .. } => ContentReader::new(content, nodes).ok()?.entries(0, 0).collect::<Result<_, _>>().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use wayfs_content::MemorySink;
    use wayfs_types::FileId;

    fn place(number: u64) -> Place {
        Place { parent: FileId::ROOT, name: crate::testing::name(&number.to_string()) }
    }

    fn content(number: u64) -> Content {
        Content::Tree { size: 10_000, root: Digest::of(&number.to_le_bytes()), depth: 0, holes: 0 }
    }

    #[test]
    fn the_version_before_is_known_and_the_last_that_the_parent_has() {
        let mut former = Former::default();
        assert_eq!(former.note(&place(1), &content(1), Reach::Parent), None);
        for version in 2..10 {
            assert_eq!(former.note(&place(1), &content(version), Reach::Child), Some(content(version - 1)));
            assert_eq!(former.note(&place(1), &content(version), Reach::Child), Some(content(version - 1)), "again");
            assert_eq!(former.before(&place(1), &content(version), Reach::Child), Some(&content(version - 1)));
            assert_eq!(former.before(&place(1), &content(version), Reach::Parent), Some(&content(1)));
        }
        former.note(&place(1), &content(9), Reach::Parent);
        assert_eq!(former.before(&place(1), &content(10), Reach::Parent), Some(&content(9)));
        assert_eq!(former.before(&place(2), &content(10), Reach::Child), None);
    }

    #[test]
    fn it_keeps_within_its_bound() {
        let mut former = Former::default();
        for number in 1..3 * PLACES_MAX as u64 {
            former.note(&place(number), &content(number), Reach::Parent);
        }
        assert_eq!((former.places.len(), former.order.len()), (PLACES_MAX, PLACES_MAX));
        former.note(&place(1), &Content::Inline(Bytes::from_static(b"small")), Reach::Parent);
        assert_eq!(former.before(&place(1), &content(1), Reach::Child), None);
    }

    #[test]
    fn an_edited_chunk_of_a_large_file_finds_what_stood_in_its_place() {
        let mut sink = MemorySink::default();
        let before = crate::testing::noise(8 << 20, 1);
        let mut after = before.clone();
        after.splice(5_000_000..5_000_000, b"some words more".iter().copied());
        let old = wayfs_content::build(&Bytes::from(before), &mut sink).unwrap();
        let new = wayfs_content::build(&Bytes::from(after), &mut sink).unwrap();
        let nodes = |digest: &Digest| sink.get(digest);
        let names = |content| -> Vec<Digest> {
            chunks(content, &nodes).unwrap().iter().map(|located| located.entry.digest).collect()
        };
        let (olds, news) = (names(&old), names(&new));
        let edited: Vec<Digest> = news.iter().filter(|digest| !olds.contains(digest)).copied().collect();
        let replaced: Vec<Digest> = olds.iter().filter(|digest| !news.contains(digest)).copied().collect();
        assert_eq!((edited.len(), replaced.len()), (1, 1));
        assert_eq!(counterparts(&old, &new, edited[0], &nodes), replaced);
        assert_eq!(counterparts(&old, &new, new.root().unwrap(), &nodes), vec![old.root().unwrap()]);
        assert_eq!(counterparts(&old, &new, Digest::of(b"elsewhere"), &nodes), Vec::new());
        assert_eq!(counterparts(&old, &new, edited[0], &|_| None), Vec::new(), "its list nodes are not here");
    }
}
