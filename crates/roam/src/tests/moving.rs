//! Timelines of sessions: when another server is measured, and moved to.

use super::*;

/// A client at a server, for a minute, so that its first measurement is over.
fn at(name: char, sites: &[(char, u64)]) -> Bench {
    let mut bench = Bench::client(sites);
    bench.feed(Input::Pinned(Some(node(name))));
    bench.run(1000);
    bench.feed(Input::Pinned(None));
    bench
}

fn dials(log: &[String]) -> usize {
    log.iter().filter(|line| line.contains("dial")).count()
}

#[test]
fn a_nearer_server_is_moved_to_after_three_rounds() {
    let mut bench = Bench::client(&[('a', 80), ('b', 4)]);
    bench.site('b').is_up = false;
    bench.run(2000);
    assert_eq!(bench.parent(), Some('a'));
    bench.site('b').is_up = true;
    // The first measurement is five seconds after the session began, 320 ms after the search.
    let log = bench.run(10_000);
    let moves: Vec<&String> = log.iter().filter(|line| line.contains("move")).collect();
    assert_eq!(moves.len(), 1, "{log:?}");
    // The parent and the other: once, then five times in each of two rounds.
    assert_eq!(dials(&log), 2 * (1 + 2 * 5), "{log:?}");
    let at: u64 = moves[0].split(' ').next().unwrap().parse().unwrap();
    let began: u64 = log[0].split(' ').next().unwrap().parse().unwrap();
    assert_eq!(log[0], format!("{began} swap"));
    assert_eq!(at - began, 1 + 80 + 2 * (1000 + 5 * 80) + 4, "a round trip, and two pauses and rounds");
    assert_eq!(*moves[0], format!("{at} move b near of 1"));
    assert_eq!(bench.parent(), Some('b'));
}

#[test]
fn noise_in_a_later_round_undoes_a_move() {
    let mut bench = at('a', &[('a', 80), ('b', 60)]);
    // What the machine is busy with adds to the dials of the parent at first.
    bench.site('a').noise = vec![ms(300)];
    let log = bench.run(10_000);
    assert_eq!(dials(&log), 2 + 2 * 5, "a round is enough: {log:?}");
    assert!(log.iter().all(|line| !line.contains("greet")), "{log:?}");
    assert_eq!(bench.parent(), Some('a'));
    // Both connections of the other are closed: of the first look, and of the round.
    let closed = log.iter().filter(|line| line.contains("close b")).count();
    assert_eq!(closed, log.iter().filter(|line| line.contains("dial b")).count());
}

#[test]
fn a_server_that_is_gone_in_a_later_round_is_not_moved_to() {
    let mut bench = at('a', &[('a', 80), ('b', 4)]);
    bench.run(500);
    bench.site('b').is_up = false;
    bench.run(60_000);
    assert_eq!(bench.parent(), Some('a'));
}

#[test]
fn the_server_that_all_take_is_joined_when_it_is_about_as_near() {
    let mut bench = at('h', &[('a', 5), ('h', 4)]);
    let log = bench.run_for_greetings(20_000);
    assert!(log.last().is_some_and(|line| line.ends_with("move a shared")), "{log:?}");
}

#[test]
fn who_holds_locks_joins_nobody_but_goes_where_it_is_nearer() {
    let mut bench = at('h', &[('a', 5), ('h', 4)]);
    bench.feed(Input::HoldsLocks(true));
    bench.run(200_000);
    assert_eq!(bench.parent(), Some('h'));
    bench.site('h').rtt = ms(80);
    bench.run(200_000);
    assert_eq!(bench.parent(), Some('a'));
}

#[test]
fn who_left_for_a_nearer_server_does_not_join_the_other_for_an_hour() {
    let mut bench = at('a', &[('a', 80), ('h', 4)]);
    bench.run(60_000);
    assert_eq!(bench.parent(), Some('h'), "it is nearer");
    bench.site('a').rtt = ms(4);
    bench.run(3_500_000);
    assert_eq!(bench.parent(), Some('h'), "load may have made it look as near");
    bench.run(200_000);
    assert_eq!(bench.parent(), Some('a'));
}

#[test]
fn the_others_are_measured_once_a_period() {
    let mut bench = Bench::client(&[('a', 1), ('h', 80)]);
    let log = bench.run(300_000);
    let swaps: Vec<&String> = log.iter().filter(|line| line.contains("swap")).collect();
    assert_eq!(swaps.len(), 5, "after five seconds, and each minute: {swaps:?}");
    assert_eq!(log.iter().filter(|line| line.contains("look h")).count(), 5, "who is not moved to is asked for news");
}

#[test]
fn a_path_that_decays_is_compared_soon() {
    let mut bench = at('a', &[('a', 20), ('h', 30)]);
    bench.run(10_000);
    bench.site('a').rtt = ms(100);
    bench.run(5000 + 3500);
    assert_eq!(bench.parent(), Some('h'));
}

#[test]
fn the_user_measures_at_once_and_another_wish_begins_anew() {
    let mut bench = at('a', &[('a', 80), ('b', 4)]);
    bench.site('b').rtt = ms(200);
    bench.run(60_000);
    bench.site('b').rtt = ms(4);
    bench.feed(Input::MeasureNow);
    let now = bench.now.as_micros() / 1000;
    assert_eq!(bench.run(10), [format!("{now} swap"), format!("{} dial a", now + 1), format!("{} dial b", now + 1)]);
    bench.feed(Input::LookAgain);
    let log = bench.run(10);
    let again = now + 10;
    let expected = [format!("{again} close a"), format!("{again} close b"), format!("{again} swap")];
    assert_eq!(log[..3], expected, "what the user wanted is not forgotten");
    bench.run(4000);
    assert_eq!(bench.parent(), Some('b'));
}

#[test]
fn the_server_that_the_user_chooses_is_moved_to_without_rounds() {
    let mut bench = Bench::client(&[('a', 4), ('h', 80)]);
    bench.run(1000);
    bench.feed(Input::Pinned(Some(node('h'))));
    assert_eq!(
        bench.run(1000),
        ["1000 swap", "1001 dial h", "1081 greet h", "1161 move h pinned"],
        "the parent is not wanted, and not measured"
    );
    assert!(bench.run(120_000).iter().all(|line| !line.contains("move")));
}

#[test]
fn a_chosen_server_that_refuses_leaves_the_session_as_it_is() {
    let mut bench = Bench::client(&[('a', 4), ('h', 80)]);
    bench.run(1000);
    bench.site('h').refuses = Some(GreetRefusal::Other);
    bench.feed(Input::Pinned(Some(node('h'))));
    let log = bench.run(10_000);
    assert_eq!(log[2..4], ["1081 greet h", "1161 close h"]);
    assert_eq!(bench.parent(), Some('a'));
    bench.site('h').refuses = None;
    bench.run(5_200);
    assert_eq!(bench.parent(), Some('h'), "it is tried again");
}

#[test]
fn a_parent_that_was_removed_is_left() {
    let mut bench = Bench::client(&[('a', 4), ('h', 80)]);
    bench.run(1000);
    bench.sites.remove(&'a');
    bench.tell_servers();
    assert_eq!(bench.run(200), ["1000 leave removed", "1000 dial h", "1080 greet h", "1160 adopt h near of 1"]);
}

#[test]
fn a_parent_that_is_removed_while_others_are_measured_is_left() {
    let mut bench = at('a', &[('a', 4), ('h', 80)]);
    bench.run(5020);
    let gone = bench.sites.remove(&'a');
    bench.tell_servers();
    assert!(gone.is_some());
    bench.run(400);
    assert_eq!(bench.parent(), Some('h'));
}

#[test]
fn a_better_server_that_was_removed_meanwhile_is_not_moved_to() {
    let mut bench = at('a', &[('a', 80), ('b', 4), ('c', 90)]);
    bench.run(1500);
    bench.sites.remove(&'b');
    let servers = bench.sites.values().map(|site| site.server.clone()).collect();
    // Its connection is there, and it would answer.
    let mut answers = Site::new('b', 4);
    answers.rtt = ms(4);
    bench.sites.insert('b', answers);
    bench.feed(Input::Servers(servers));
    let log = bench.run(20_000);
    assert!(log.iter().all(|line| !line.contains("greet b")), "{log:?}");
    assert_eq!(bench.parent(), Some('a'));
}

#[test]
fn the_parent_that_the_user_chose_is_asked_about_at_the_others() {
    let mut bench = Bench::client(&[('a', 4), ('h', 80)]);
    bench.feed(Input::Pinned(Some(node('a'))));
    let log = bench.run(6000);
    assert!(log.iter().any(|line| line.contains("look h")), "{log:?}");
}

#[test]
fn a_session_that_ends_while_others_are_measured_closes_what_is_open() {
    let mut bench = at('a', &[('a', 80), ('b', 4), ('h', 300)]);
    bench.run(400);
    bench.site('a').is_up = false;
    bench.end_session();
    bench.run(4000);
    assert_eq!(bench.parent(), Some('b'));
}
