//! Kendall's tau: do two columns of numbers have the same order?

/// Tau-b of pairs: 1 if all pairs are in the same order, -1 if all are in the other. Published numbers that are equal to within their last digit are ties.
pub(super) fn kendall(pairs: &[(f64, f64)]) -> f64 {
    let (mut agree, mut ties_first, mut ties_second, mut count) = (0_i64, 0_i64, 0_i64, 0_i64);
    for (n, (a, b)) in pairs.iter().enumerate() {
        for (c, d) in &pairs[n + 1..] {
            let (first, second) = (sign(a - c), sign(b - d));
            count += 1;
            agree += first * second;
            ties_first += i64::from(first == 0);
            ties_second += i64::from(second == 0);
        }
    }
    let size = ((count - ties_first) as f64 * (count - ties_second) as f64).sqrt();
    if size > 0.0 { agree as f64 / size } else { 0.0 }
}

/// Hundredths of a Mb/s are the last digit of the published tables.
fn sign(difference: f64) -> i64 {
    match difference {
        d if d > 0.005 => 1,
        d if d < -0.005 => -1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_order_is_one_and_a_swap_of_neighbours_is_less() {
        assert_eq!(kendall(&[(1.0, 10.0), (2.0, 20.0), (3.0, 30.0)]), 1.0);
        assert_eq!(kendall(&[(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]), -1.0);
        // Ten pairs, one of them the other way round.
        let swapped = [(1.0, 1.0), (2.0, 3.0), (3.0, 2.0), (4.0, 4.0), (5.0, 5.0)];
        assert!((kendall(&swapped) - 0.8).abs() < 1e-9);
        // A tie in one column: (1 + 1) / sqrt(2 * 3).
        assert!((kendall(&[(1.0, 1.0), (1.0, 2.0), (2.0, 3.0)]) - 2.0 / 6.0_f64.sqrt()).abs() < 1e-9);
    }
}
