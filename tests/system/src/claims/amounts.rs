//! Amounts that are not nothing, held against the disks: "all but two versions of 90 KB are at the home" is a claim about the
//! rest. Which they are is not said, so they are counted when a disk is lost.

use super::disk::{Disk, Moment};
use super::piece::Number;
use std::collections::{BTreeMap, BTreeSet};

/// So much may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lacking {
    /// Contents, be they in records or apart.
    pub(super) contents: u64,
    /// Bytes of them.
    pub(super) bytes: u64,
}

impl Lacking {
    /// The amount in a ledger, with the files that are open and counted in its bytes. `None`: it is not known.
    pub(super) fn of(amount: &serde_json::Value, open_files: u64) -> Option<Self> {
        let number = |name: &str| amount[name].as_u64();
        let contents = number("records")? + number("versions")? + open_files;
        Some(Self { contents, bytes: number("bytes")? })
    }
}

/// One of these disks has each of these pieces, but for so much.
#[derive(Debug, Clone)]
pub(super) struct AllBut {
    pieces: BTreeSet<Number>,
    disks: BTreeSet<Disk>,
    lacking: Lacking,
    said: Moment,
    kind: &'static str,
}

/// All such claims that hold while their disks are there.
#[derive(Debug, Default)]
pub(super) struct Amounts {
    claims: Vec<AllBut>,
}

impl Amounts {
    pub(super) fn claim(
        &mut self,
        pieces: BTreeSet<Number>,
        disks: BTreeSet<Disk>,
        lacking: Lacking,
        (said, kind): (Moment, &'static str),
    ) {
        if pieces.len() as u64 > lacking.contents {
            self.claims.push(AllBut { pieces, disks, lacking, said, kind });
        }
    }

    /// A disk has only what it had at a moment.
    pub(super) fn put_back(&mut self, disk: Disk, to: Moment) {
        self.claims.retain(|claim| !claim.disks.contains(&disk) || claim.said <= to);
    }

    /// What of these is not there, beyond what was said. `lens`: the pieces that are not there, and their bytes.
    pub(super) fn beyond(&self, lens: &BTreeMap<Number, u64>) -> Vec<String> {
        let mut found = Vec::new();
        for claim in &self.claims {
            let gone: Vec<(Number, u64)> =
                claim.pieces.iter().filter_map(|number| Some((*number, *lens.get(number)?))).collect();
            let bytes: u64 = gone.iter().map(|(_, len)| len).sum();
            if gone.len() as u64 > claim.lacking.contents || bytes > claim.lacking.bytes {
                let numbers: Vec<Number> = gone.iter().map(|(number, _)| *number).collect();
                found.push(format!(
                    "{} ({:?}): {numbers:?} of {bytes} bytes are not there, and {:?} was said to lack on {:?}",
                    claim.kind, claim.said, claim.lacking, claim.disks
                ));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Disk = Disk::new(1);

    fn amounts(contents: u64, bytes: u64) -> Amounts {
        let mut amounts = Amounts::default();
        let lacking = Lacking { contents, bytes };
        amounts.claim(BTreeSet::from([1, 2, 3]), BTreeSet::from([A]), lacking, (Moment(5), "status"));
        amounts
    }

    #[test]
    fn more_contents_or_bytes_that_lack_than_was_said_are_found() {
        let gone = |numbers: &[Number]| numbers.iter().map(|number| (*number, 100)).collect::<BTreeMap<_, _>>();
        assert!(amounts(1, 100).beyond(&gone(&[2])).is_empty());
        assert!(amounts(1, 100).beyond(&gone(&[2, 9])).is_empty(), "of another nothing was said");
        assert_eq!(amounts(1, 300).beyond(&gone(&[2, 3])).len(), 1, "too many");
        assert_eq!(amounts(2, 150).beyond(&gone(&[2, 3])).len(), 1, "too large");
        assert!(amounts(3, 0).beyond(&gone(&[1, 2, 3])).is_empty(), "nothing was said to be there");
    }

    #[test]
    fn a_disk_that_is_put_back_owes_what_was_said_before() {
        let gone = BTreeMap::from([(2, 100), (3, 100)]);
        let mut amounts = amounts(1, 300);
        amounts.put_back(A, Moment(5));
        assert_eq!(amounts.beyond(&gone).len(), 1);
        amounts.put_back(A, Moment(4));
        assert!(amounts.beyond(&gone).is_empty());
    }
}
