//! No counted cost grows with the size of something that it has nothing to do with.

use super::costs::{ALL, Cost};
use super::counting::{CPU, NAMES};
use super::report::ROLES;
use super::{Growth, grow};

/// A cost at eight times the size may be so many times what it was: tables in memory have no depth that would show.
const GROWTH_MAX: f64 = 1.15;
/// Differences below this are those of a few timers and pages.
const NOISE: f64 = 0.25;

/// Small and eight times as large.
fn sizes(cost: Cost) -> [usize; 2] {
    match cost {
        Cost::TellStations => [1, 8],
        Cost::ChangeBesideWatches => [40, 320],
        _ => [150, 1200],
    }
}

/// What is counted grows by what may: a home sends to each station, and reads nothing more for it.
fn allowed(growth: &Growth, role: usize, name: &str) -> f64 {
    let is_home_telling = growth.cost == Cost::TellStations && ROLES[role] == "home";
    // The writer's own station is not told all that the others are.
    if is_home_telling && matches!(name, "messages" | "message bytes" | "inputs") { 9.0 } else { GROWTH_MAX }
}

#[test]
fn nothing_counted_grows_with_what_an_operation_has_nothing_to_do_with() {
    let mut grown = Vec::new();
    for cost in ALL {
        let growth = grow(cost, &sizes(cost), 100).unwrap();
        let [(_, small), (_, large)] = growth.at.as_slice() else { panic!("two sizes") };
        for (role, machine) in ROLES.iter().enumerate() {
            let small = small.work[role].figures(small.operations);
            let large = large.work[role].figures(large.operations);
            for (figure, name) in NAMES.iter().enumerate().filter(|(figure, _)| *figure != CPU) {
                let bound = small[figure] * allowed(&growth, role, name) + NOISE;
                if large[figure] > bound {
                    let (before, after) = (small[figure], large[figure]);
                    grown.push(format!("{}: {name} of the {machine}: {before:.2} to {after:.2}", cost.name()));
                }
            }
        }
    }
    assert!(grown.is_empty(), "grown with eight times the size:\n{}", grown.join("\n"));
}

#[test]
fn the_same_size_gives_the_same_counts() {
    let counts = || {
        let measured = Cost::Create.measure(50, 20).unwrap();
        measured.work.map(|work| super::counting::Work { cpu_ns: 0, ..work })
    };
    assert_eq!(counts(), counts());
}
