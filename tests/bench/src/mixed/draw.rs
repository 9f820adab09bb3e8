//! Chance: which operation is next, and on what.

use rand::Rng;
use rand::rngs::StdRng;

/// One of some, each as likely as its number says.
pub(super) fn weighted<T: Copy>(random: &mut StdRng, weights: &[(T, u32)]) -> T {
    let all: u32 = weights.iter().map(|(_, weight)| weight).sum();
    let mut left = random.random_range(0..all);
    for (it, weight) in weights {
        if left < *weight {
            return *it;
        }
        left -= weight;
    }
    unreachable!("a number below the sum is within one of its parts")
}

/// A place in a list, if it has any.
pub(super) fn place<T>(random: &mut StdRng, list: &[T]) -> Option<usize> {
    (!list.is_empty()).then(|| random.random_range(0..list.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn each_comes_as_often_as_its_weight_says() {
        let mut random = StdRng::seed_from_u64(1);
        let mut came = [0; 3];
        for _ in 0..10_000 {
            came[weighted(&mut random, &[(0, 1), (1, 0), (2, 3)])] += 1;
        }
        assert!((2_300..2_700).contains(&came[0]) && came[1] == 0, "{came:?}");
        assert_eq!(place::<u8>(&mut random, &[]), None);
        assert_eq!(place(&mut random, &[7]), Some(0));
    }
}
