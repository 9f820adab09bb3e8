//! Timelines of searches: which server, and how soon.

use super::*;

#[test]
fn others_have_a_grace_after_the_first_answer() {
    let mut bench = Bench::client(&[('a', 4), ('b', 33), ('h', 200)]);
    let log = bench.run(100);
    let expected =
        ["0 dial a", "0 dial b", "0 dial h", "34 greet a", "38 close b", "38 close h", "38 adopt a near of 2"];
    assert_eq!(log, expected);
    // Twice its round trip, if that is more.
    let mut bench = Bench::client(&[('a', 100), ('b', 290), ('h', 310)]);
    assert_eq!(bench.run(1000)[3..], ["300 greet a", "400 close b", "400 close h", "400 adopt a near of 2"]);
}

#[test]
fn nobody_is_waited_for_when_all_have_answered() {
    let mut bench = Bench::client(&[('a', 4), ('b', 8)]);
    assert_eq!(bench.run(100)[2..], ["8 greet a", "12 close b", "12 adopt a near of 2"]);
}

#[test]
fn a_difference_that_noise_may_have_made_is_looked_at_again() {
    let mut bench = Bench::client(&[('a', 2), ('h', 1)]);
    // At the first and second look.
    bench.site('a').noise = vec![ms(8), ms(9)];
    let log = bench.run(100);
    let dials = log.iter().filter(|line| line.contains("dial a")).count();
    assert_eq!((dials, log.last().map(String::as_str)), (3, Some("21 adopt a near of 2")), "{log:?}");
}

#[test]
fn noise_is_looked_through_five_times_at_most() {
    let mut bench = Bench::client(&[('a', 30), ('h', 1)]);
    let log = bench.run(1000);
    let dials = log.iter().filter(|line| line.contains("dial a")).count();
    assert_eq!((dials, bench.parent()), (5, Some('h')), "{log:?}");
}

#[test]
fn the_server_that_the_user_chose_is_the_only_one_that_is_dialled() {
    let mut bench = Bench::client(&[('a', 4), ('b', 90)]);
    bench.feed(Input::Pinned(Some(node('b'))));
    let log = bench.run(1000);
    assert_eq!(log[2..], ["0 dial b", "0 close a", "0 close b", "90 greet b", "180 adopt b pinned"]);
    bench.site('b').is_up = false;
    bench.run(10_000);
    bench.end_session();
    let log = bench.run(20_000);
    assert!(log.iter().all(|line| !line.contains("dial a")), "{log:?}");
    bench.feed(Input::Pinned(None));
    bench.run(6_000);
    assert_eq!(bench.parent(), Some('a'));
}

#[test]
fn a_chosen_server_that_has_another_key_is_still_the_chosen_one() {
    let mut bench = Bench::client(&[('a', 4), ('h', 90)]);
    bench.feed(Input::Pinned(Some(node('z'))));
    bench.feed(Input::Renamed { was: node('z'), is: node('h') });
    bench.run(1000);
    assert_eq!(bench.parent(), Some('h'));
}

#[test]
fn a_station_has_no_parent_but_the_home() {
    let mut bench = Bench::new(Parents::HomeOnly, &[('a', 1), ('h', 90)]);
    let log = bench.run(10_000);
    assert!(log.iter().all(|line| !line.contains("greet a")), "{log:?}");
    assert_eq!(bench.parent(), Some('h'));
}

#[test]
fn a_server_whose_address_is_not_known_is_not_dialled() {
    let mut bench = Bench::client(&[('a', 1), ('h', 90)]);
    bench.site('a').server.addresses = None;
    bench.tell_servers();
    bench.run(1000);
    assert_eq!(bench.parent(), Some('h'));
}

#[test]
fn who_refuses_is_left_for_the_next() {
    let mut bench = Bench::client(&[('a', 4), ('b', 20)]);
    bench.site('a').refuses = Some(GreetRefusal::NotReady);
    assert_eq!(bench.run(100)[2..], ["20 greet a", "24 close a", "24 greet b", "44 adopt b near of 2"]);
}

/// Seed 97000579 of `home-back`: a home that was put back had forgotten a member, and so had both stations next door to it. The home would have
/// taken it, and was never asked: it answered after the grace.
#[test]
fn who_answers_after_the_grace_is_asked_when_the_others_refuse() {
    let mut bench = Bench::client(&[('a', 1), ('b', 2), ('h', 56)]);
    bench.site('a').refuses = Some(GreetRefusal::NotReady);
    bench.site('b').refuses = Some(GreetRefusal::NotReady);
    let log = bench.run_for_greetings(1000);
    assert_eq!(log, ["31 greet a", "32 greet b", "56 greet h", "112 adopt h near of 2"]);
    // One that does not answer at all is waited for as long as its dial takes.
    let mut bench = Bench::client(&[('a', 1), ('h', 56)]);
    bench.site('a').refuses = Some(GreetRefusal::NotReady);
    bench.site('h').is_up = false;
    let log = bench.run_for_greetings(5050);
    assert_eq!(log, ["31 greet a", "5000 ask in", "5010 failed"]);
    // But not if the user wants something else.
    let mut bench = Bench::client(&[('a', 1), ('h', 56)]);
    bench.site('a').refuses = Some(GreetRefusal::NotReady);
    bench.site('h').is_up = false;
    bench.run(100);
    bench.site('a').refuses = None;
    bench.feed(Input::LookAgain);
    assert_eq!(bench.run_for_greetings(1000), ["131 greet a", "132 adopt a near of 1"]);
}

#[test]
fn refused_by_all_it_asks_in_again_and_rests() {
    let mut bench = Bench::client(&[('a', 4), ('h', 20)]);
    bench.site('a').refuses = Some(GreetRefusal::NotReady);
    bench.site('h').refuses = Some(GreetRefusal::NotMember);
    let log = bench.run_for_greetings(16_000);
    let first = ["20 greet a", "24 greet h", "44 ask in", "54 failed for long"];
    assert_eq!(log[..4], first);
    assert_eq!(log[4], "15074 greet a", "after the pause of a refused machine");
    // A ticket helps, and nobody waits for the pause.
    bench.ticket = AskedIn::TakenIn;
    bench.feed(Input::LookAgain);
    bench.site('h').refuses = None;
    let log = bench.run_for_greetings(1000);
    assert_eq!(log.last().map(String::as_str), Some("16044 adopt h near of 2"), "{log:?}");
}

#[test]
fn with_a_grant_in_hand_the_next_attempt_is_made_at_once() {
    let mut bench = Bench::client(&[('h', 20)]);
    bench.site('h').refuses = Some(GreetRefusal::NotMember);
    bench.ticket = AskedIn::TakenIn;
    bench.run(45);
    bench.site('h').refuses = None;
    let log = bench.run(100);
    assert_eq!(log, ["50 failed", "50 dial h", "70 greet h", "90 adopt h near of 1"]);
}

#[test]
fn a_ticket_that_is_no_good_waits_as_long_as_a_refusal() {
    let mut bench = Bench::client(&[('h', 20)]);
    bench.site('h').refuses = Some(GreetRefusal::NotReady);
    bench.ticket = AskedIn::TicketRefused;
    let log = bench.run_for_greetings(15_060);
    assert_eq!(log, ["20 greet h", "40 ask in", "50 failed for long"]);
    assert!(bench.run(50).contains(&"15070 greet h".to_owned()));
}

#[test]
fn a_server_that_is_not_ready_is_tried_again_soon() {
    let mut bench = Bench::client(&[('h', 20)]);
    bench.site('h').refuses = Some(GreetRefusal::NotReady);
    let log = bench.run_for_greetings(500);
    assert_eq!(log.iter().filter(|line| line.contains("greet")).count(), 3, "{log:?}");
}

#[test]
fn a_session_that_died_young_is_followed_by_pauses_that_double() {
    let mut bench = Bench::client(&[('h', 10)]);
    let mut pauses = Vec::new();
    for _ in 0..6 {
        bench.run(3000);
        let lost = bench.now;
        bench.end_session();
        // News of the servers are no reason to hurry.
        bench.tell_servers();
        let dial = bench.run(2100).into_iter().find(|line| line.contains("dial h")).expect("dialled again");
        let at: u64 = dial.split(' ').next().unwrap().parse().unwrap();
        pauses.push(at - lost.as_micros() / 1000);
    }
    assert_eq!(pauses, [100, 200, 400, 800, 1600, 2000]);
    bench.run(6000);
    bench.end_session();
    assert_eq!(bench.run(0), [format!("{} dial h", bench.now.as_micros() / 1000)], "it had done well");
}

#[test]
fn who_wants_something_else_ends_a_pause() {
    for wish in [Input::LookAgain, Input::MeasureNow, Input::GoOnline, Input::Pinned(None)] {
        let mut bench = Bench::client(&[('h', 10)]);
        bench.run(50);
        bench.end_session();
        bench.feed(wish.clone());
        assert_eq!(bench.run(0), ["50 dial h"], "{wish:?}");
    }
}

#[test]
fn addresses_that_change_while_it_dials_are_dialled_anew() {
    let mut bench = Bench::client(&[('h', 90)]);
    bench.site('h').is_up = false;
    bench.run(10);
    bench.tell_servers();
    assert!(bench.run(10).is_empty(), "nothing has changed");
    bench.site('h').is_up = true;
    bench.site('h').server.addresses = Some(AddressVersion::new(1));
    bench.tell_servers();
    assert_eq!(bench.run(200), ["20 dial h", "20 close h", "110 greet h", "200 adopt h near of 1"]);
}

#[test]
fn addresses_that_go_on_changing_do_not_keep_it_dialling_anew() {
    let mut bench = Bench::client(&[('h', 50)]);
    for version in 1..100 {
        bench.run(10);
        bench.site('h').server.addresses = Some(AddressVersion::new(version));
        bench.tell_servers();
    }
    assert_eq!(bench.parent(), Some('h'));
}

#[test]
fn an_address_that_is_heard_ends_a_pause() {
    let mut bench = Bench::client(&[]);
    assert_eq!(bench.run(1000).first().map(String::as_str), Some("0 failed"));
    bench.sites.insert('h', Site::new('h', 10));
    bench.tell_servers();
    bench.run(30);
    assert_eq!(bench.parent(), Some('h'));
}

#[test]
fn offline_nothing_is_dialled_and_online_at_once() {
    let mut bench = Bench::client(&[('h', 20)]);
    bench.run(10);
    bench.feed(Input::GoOffline);
    assert_eq!(bench.run(60_000), ["10 close h", "10 offline"]);
    bench.feed(Input::GoOnline);
    assert_eq!(bench.run(100), ["60010 online", "60010 dial h", "60030 greet h", "60050 adopt h near of 1"]);
    bench.feed(Input::GoOffline);
    bench.feed(Input::GoOffline);
    bench.tell_servers();
    bench.feed(Input::MeasureNow);
    assert_eq!(bench.run(60_000), ["60110 leave", "60110 offline"]);
    assert_eq!(bench.roam.poll_timeout(), None);
}

#[test]
fn what_the_home_grants_is_taken_before_it_goes_offline() {
    let mut bench = Bench::client(&[('h', 20)]);
    bench.site('h').refuses = Some(GreetRefusal::NotMember);
    bench.ticket = AskedIn::TakenIn;
    bench.run(45);
    bench.feed(Input::GoOffline);
    assert_eq!(bench.run(1000), ["50 failed", "50 offline"]);
}

#[test]
fn a_station_that_lost_its_home_asks_the_others_where_it_is_ever_more_seldom() {
    let mut bench = Bench::new(Parents::HomeOnly, &[('a', 1), ('h', 20)]);
    bench.site('h').is_up = false;
    let mut log = bench.run(200_000);
    log.retain(|line| line.contains("around"));
    let at: Vec<u64> = log.iter().map(|line| line.split(' ').next().unwrap().parse::<u64>().unwrap() / 1000).collect();
    assert_eq!(at[..5], [5, 10, 15, 20, 33], "{log:?}");
    assert!(at.windows(2).skip(6).all(|pair| pair[1] - pair[0] >= 30), "{at:?}");
}

#[test]
fn a_look_around_that_takes_too_long_is_ended() {
    let mut bench = Bench::new(Parents::HomeOnly, &[('h', 20)]);
    bench.site('h').is_up = false;
    bench.run(5010);
    bench.answers.clear();
    assert_eq!(bench.run(5100), ["10000 stop", "10000 failed", "10100 dial h"]);
}
