//! Who is reached over which line: the fewest hops, then the line that was made first.

use std::collections::{BTreeMap, VecDeque};

/// A line as routing sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) first: usize,
    pub(crate) second: usize,
    /// Whether routes may lead over it.
    pub(crate) routed: bool,
}

/// Of one host: over which line (its number) each other host is reached.
pub(crate) fn routes(host: usize, edges: &[Edge]) -> BTreeMap<usize, usize> {
    let mut over: BTreeMap<usize, usize> = BTreeMap::new();
    let mut queue = VecDeque::from([(host, None)]);
    while let Some((here, first_line)) = queue.pop_front() {
        for (line, edge) in edges.iter().enumerate().filter(|(_, edge)| edge.routed) {
            let there = match (edge.first == here, edge.second == here) {
                (true, false) => edge.second,
                (false, true) => edge.first,
                (true, true) | (false, false) => continue,
            };
            if there != host && !over.contains_key(&there) {
                let first_line = first_line.unwrap_or(line);
                over.insert(there, first_line);
                queue.push_back((there, Some(first_line)));
            }
        }
    }
    over
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn edge(first: usize, second: usize) -> Edge {
        Edge { first, second, routed: true }
    }

    #[test]
    fn the_shortest_way_wins_and_then_the_first_line() {
        // 0 - 1 - 2 - 3, a shortcut 0 - 2, and a second line 0 - 1.
        let edges = [edge(0, 1), edge(1, 2), edge(2, 3), edge(2, 0), edge(0, 1)];
        assert_eq!(routes(0, &edges), BTreeMap::from([(1, 0), (2, 3), (3, 3)]));
        assert_eq!(routes(3, &edges), BTreeMap::from([(0, 2), (1, 2), (2, 2)]));
    }

    #[test]
    fn lines_out_of_service_are_not_used() {
        let edges = [edge(0, 1), Edge { routed: false, ..edge(1, 2) }];
        assert_eq!(routes(0, &edges), BTreeMap::from([(1, 0)]));
    }
}
