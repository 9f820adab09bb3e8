//! The lives of a writer's store: which numbers it gave, and which it left out.
//!
//! The first record of each life of a client's store lies behind a gap in the numbers. Only another copy of the writer's store can have
//! written a number of a gap, so whoever has later numbers of this one does not have it.

use serde::{Deserialize, Serialize};

/// Lives of a store that its origin's image tells of. A store that was opened oftener is known less well.
pub const LIVES_MAX: usize = 16;
/// Of so many the gaps are always known: what they wrote is what may still be on its way.
const LIVES_EXACT: usize = 8;

/// One opening of a store, drawn at random: two copies of a store that are both opened have different ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Life(pub u32);

impl Life {
    /// A store whose driver draws none: nothing is concluded from it.
    pub const NONE: Self = Self(0);
}

/// Where the numbers of a life of a writer's store begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LifeSpan {
    /// The life.
    pub life: Life,
    /// The last sequence of the lives before.
    pub after: u64,
    /// The first sequence of this one. Nothing has a number between.
    pub from: u64,
}

/// The lives of a writer's store, oldest first, without a first one that left out no numbers: [`LIVES_MAX`] at most.
///
/// At the bound two old neighbours become one, those that gave the fewest numbers between: what the older of the two wrote counts
/// as numbers of the gap then, so that nobody says of it that it is where later numbers are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<LifeSpan>")]
pub struct KnownLives(Vec<LifeSpan>);

impl KnownLives {
    /// The newest life; [`Life::NONE`] until a record named one.
    pub fn newest(&self) -> Life {
        self.0.last().map_or(Life::NONE, |span| span.life)
    }

    /// Notes a life that begins. Its numbers lie behind all others.
    pub fn begin(&mut self, span: LifeSpan) {
        self.0.push(span);
        if self.0.len() <= LIVES_MAX {
            return;
        }
        let old = &self.0[..=LIVES_MAX - LIVES_EXACT];
        let given = |pair: &[LifeSpan]| pair[1].after.saturating_sub(pair[0].from);
        let fewest = old.windows(2).enumerate().min_by_key(|(_, pair)| given(pair));
        if let Some((index, _)) = fewest {
            let gap = self.0.remove(index);
            self.0[index].after = gap.after;
        }
    }

    /// The last numbers before the gaps, oldest first.
    pub fn ends(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|span| span.after)
    }

    /// In which life a number was given; `None` if it lies in a gap, or if that is not known any more.
    pub fn life_at(&self, sequence: u64) -> Option<Life> {
        let begun = self.0.partition_point(|span| span.from <= sequence);
        if self.0.get(begun).is_some_and(|next| next.after < sequence) {
            return None;
        }
        Some(begun.checked_sub(1).map_or(Life::NONE, |last| self.0[last].life))
    }
}

impl TryFrom<Vec<LifeSpan>> for KnownLives {
    type Error = &'static str;

    fn try_from(spans: Vec<LifeSpan>) -> Result<Self, Self::Error> {
        if spans.len() > LIVES_MAX {
            return Err("too many lives");
        }
        let is_in_order = spans.iter().all(|span| span.after < span.from)
            && spans.windows(2).all(|pair| pair[0].from <= pair[1].after);
        if is_in_order { Ok(Self(spans)) } else { Err("lives out of order") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lives(spans: &[(u32, u64, u64)]) -> KnownLives {
        let mut lives = KnownLives::default();
        spans.iter().for_each(|&(life, after, from)| lives.begin(LifeSpan { life: Life(life), after, from }));
        lives
    }

    #[test]
    fn each_gap_is_known() {
        let lives = lives(&[(7, 10, 100), (8, 100, 200), (9, 250, 300)]);
        let at = |sequence| lives.life_at(sequence).map(|life| life.0);
        assert_eq!([at(1), at(10), at(11), at(99), at(100)], [Some(0), Some(0), None, None, Some(7)]);
        assert_eq!(
            [at(101), at(200), at(250), at(251), at(300), at(999)],
            [None, Some(8), Some(8), None, Some(9), Some(9)]
        );
        assert_eq!(lives.newest(), Life(9));
    }

    #[test]
    fn at_the_bound_the_shortest_of_the_old_lives_counts_as_a_gap() {
        let count = u32::try_from(LIVES_MAX).unwrap() + 1;
        // Each gives 10 numbers, the third 2.
        let spans = (1..=count).map(|n| {
            let given = if n == 4 { 2 } else { 10 };
            (n, u64::from(n - 1) * 1000 + given, u64::from(n) * 1000)
        });
        let lives = lives(&spans.collect::<Vec<_>>());
        assert_eq!(lives.0.len(), LIVES_MAX);
        assert_eq!(lives.life_at(3000), None, "it failed towards what is not there");
        assert_eq!(lives.life_at(3002), None);
        for n in (1..=count).filter(|n| *n != 3) {
            assert_eq!(lives.life_at(u64::from(n) * 1000), Some(Life(n)), "the others are known");
        }
        assert_eq!(lives.life_at(2010), Some(Life(2)));
        assert_eq!(lives.life_at(2011), None);
    }

    #[test]
    fn the_newest_lives_are_never_joined() {
        let count = u32::try_from(LIVES_MAX).unwrap() * 3;
        // Later ones are shorter.
        let spans: Vec<_> =
            (1..=count).map(|n| (n, u64::from(n - 1) * 1000 + 1 + u64::from(count - n), u64::from(n) * 1000)).collect();
        let lives = lives(&spans);
        for n in count - u32::try_from(LIVES_EXACT).unwrap() + 1..=count {
            assert_eq!(lives.life_at(u64::from(n) * 1000), Some(Life(n)));
        }
    }

    #[test]
    fn lives_out_of_order_and_too_many_are_refused() {
        let span = |after, from| LifeSpan { life: Life(1), after, from };
        assert!(KnownLives::try_from(vec![span(1, 5), span(5, 9)]).is_ok());
        assert!(KnownLives::try_from(vec![span(5, 5)]).is_err());
        assert!(KnownLives::try_from(vec![span(1, 5), span(4, 9)]).is_err());
        let many = (0..=LIVES_MAX as u64).map(|n| span(n * 10, n * 10 + 5)).collect::<Vec<_>>();
        assert!(KnownLives::try_from(many[1..].to_vec()).is_ok());
        assert!(KnownLives::try_from(many).is_err());
    }
}
