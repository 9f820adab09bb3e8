use super::*;

fn steady() -> (Arc<PathState>, Steady, Instant) {
    let (state, now) = (Arc::new(PathState::default()), Instant::now());
    (Arc::clone(&state), Steady::new(state, now, 1200), now)
}

#[test]
fn a_window_is_at_most_twice_what_was_tried() {
    let (_, mut steady, now) = steady();
    steady.window = 1e12;
    assert_eq!(steady.window(), INITIAL_WINDOW);
    steady.on_sent(now, INITIAL_WINDOW, 1);
    assert_eq!(steady.window(), 2 * INITIAL_WINDOW);
}

#[test]
fn a_router_that_says_so_halves_nothing_twice_in_a_round() {
    let (_, mut steady, now) = steady();
    let later = now + Duration::from_millis(50);
    steady.on_sent(now, 2 * INITIAL_WINDOW, 1);
    let before = steady.window;
    steady.on_congestion_event(later, now, false, 0);
    let cut = steady.window;
    assert!(cut < before);
    steady.on_congestion_event(later, now, false, 0);
    assert_eq!(steady.window, cut, "it was under way with the first");
}

#[test]
fn the_smallest_window_is_never_less_than_four_packets() {
    let (_, mut steady, now) = steady();
    for round in 1..100u32 {
        let at = now + Duration::from_millis(100) * round;
        steady.on_sent(at, 1200, 1);
        steady.on_congestion_event(at + Duration::from_millis(50), at, true, 0);
    }
    assert!(steady.window() >= LOWEST_PACKETS * 1200);
}

#[test]
fn a_path_that_changed_goes_on_with_the_same_state() {
    let state = Arc::new(PathState::default());
    let factory = crate::Congestion::Steady.factory(Arc::clone(&state));
    let mut first = factory.build(Instant::now(), 1200);
    let mut copy = first.clone_box();
    first.on_sent(Instant::now(), 100, 1);
    copy.on_sent(Instant::now(), 100, 2);
    assert_eq!(state.view().sent_since, 200);
}
