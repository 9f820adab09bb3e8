//! Which operations, how often.

/// A file operation, by the name of the NFS call that it is or comes nearest to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// The file of a name.
    Lookup,
    /// Up to 8 KiB of a file.
    Read,
    /// Up to 8 KiB into a file.
    Write,
    /// Attributes of a file.
    Getattr,
    /// Where a symbolic link leads.
    Readlink,
    /// Names in a directory.
    Readdir,
    /// A new file.
    Create,
    /// A file less.
    Remove,
    /// Free space.
    Fsstat,
    /// Sets attributes.
    Setattr,
    /// Names in a directory with attributes.
    Readdirplus,
    /// Which rights we have.
    Access,
    /// Makes what was written durable.
    Commit,
}

/// Operations with their shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mix {
    shares: &'static [(Operation, u32)],
}

/// SPEC SFS, NFS version 3 (its user's guide, releases 2.0 and 3.0): percentages, which add up to 99.
pub(crate) const SFS: Mix = Mix::new(&[
    (Operation::Lookup, 27),
    (Operation::Read, 18),
    (Operation::Getattr, 11),
    (Operation::Write, 9),
    (Operation::Readdirplus, 9),
    (Operation::Readlink, 7),
    (Operation::Access, 7),
    (Operation::Commit, 5),
    (Operation::Readdir, 2),
    (Operation::Create, 1),
    (Operation::Remove, 1),
    (Operation::Fsstat, 1),
    (Operation::Setattr, 1),
]);

impl Mix {
    /// Operations and how often each comes, in any unit.
    ///
    /// # Panics
    /// If no operation has a share.
    pub const fn new(shares: &'static [(Operation, u32)]) -> Self {
        assert!(total(shares) > 0, "a mix has operations");
        Self { shares }
    }

    /// The operation that a random number stands for.
    pub fn pick(&self, random: u64) -> Operation {
        let mut left = random % u64::from(total(self.shares));
        for (operation, share) in self.shares {
            match left.checked_sub(u64::from(*share)) {
                None => return *operation,
                Some(rest) => left = rest,
            }
        }
        unreachable!("what is left is less than the total")
    }
}

const fn total(shares: &[(Operation, u32)]) -> u32 {
    let (mut sum, mut place) = (0, 0);
    while place < shares.len() {
        sum += shares[place].1;
        place += 1;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_come_as_often_as_their_shares() {
        let picked: Vec<Operation> = (0..99).map(|random| SFS.pick(random)).collect();
        let count = |operation| picked.iter().filter(|picked| **picked == operation).count();
        assert_eq!([count(Operation::Lookup), count(Operation::Commit), count(Operation::Setattr)], [27, 5, 1]);
        assert_eq!(SFS.pick(99), SFS.pick(0));
    }
}
