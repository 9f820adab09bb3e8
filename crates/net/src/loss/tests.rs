use super::*;

const MS: Duration = Duration::from_millis(1);

fn path(rtt_ms: u32) -> Path {
    Path { rtt_min: 20 * MS, rtt: MS * rtt_ms, rate: 1_000_000.0, mtu: 1000, is_excused: false }
}

/// Sends a packet of 1000 bytes each millisecond, each of which takes `rtt` ms; those for which `lost` says so are not
/// acknowledged, and the last of them is judged when the next but two is acknowledged.
fn run(judge: &mut LossJudge, rtt: u32, packets: u32, lost: impl Fn(u32) -> bool) -> Vec<Verdict> {
    let start = Instant::now();
    let mut verdicts = Vec::new();
    let mut waiting: Option<(u32, u32)> = None;
    for ms in 0..packets + rtt {
        let now = start + MS * ms;
        if ms < packets {
            judge.on_sent(now, 1000);
        }
        let Some(sent) = ms.checked_sub(rtt) else { continue };
        if lost(sent) {
            let (_, bytes) = waiting.unwrap_or((0, 0));
            waiting = Some((sent, bytes + 1000));
            continue;
        }
        judge.on_ack(now, start + MS * sent, 1000);
        if let Some((last, bytes)) = waiting.filter(|(last, _)| sent >= last + 3) {
            verdicts.push(judge.judge(now, start + MS * last, u64::from(bytes), &path(rtt)));
            waiting = None;
        }
    }
    verdicts
}

#[test]
fn a_packet_now_and_then_on_an_empty_path_is_scattered() {
    let verdicts = run(&mut LossJudge::default(), 20, 3000, |packet| packet % 100 == 50);
    assert_eq!(verdicts.len(), 30);
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Scattered), "{verdicts:?}");
}

#[test]
fn a_packet_now_and_then_behind_a_queue_is_a_full_queue() {
    let verdicts = run(&mut LossJudge::default(), 40, 1000, |packet| packet % 100 == 50);
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::FullQueue), "{verdicts:?}");
}

#[test]
fn a_run_is_a_burst_whatever_the_queue() {
    for rtt in [20, 80] {
        let verdicts = run(&mut LossJudge::default(), rtt, 1000, |packet| (400..410).contains(&packet));
        assert_eq!(verdicts, [Verdict::Burst], "{rtt}");
    }
}

#[test]
fn a_full_queue_that_loses_every_other_packet_is_no_burst() {
    let verdicts = run(&mut LossJudge::default(), 80, 1000, |packet| (400..500).contains(&packet) && packet % 2 == 0);
    assert!(!verdicts.is_empty() && verdicts.iter().all(|verdict| *verdict == Verdict::FullQueue), "{verdicts:?}");
}

#[test]
fn much_loss_on_an_empty_path_is_a_short_queue() {
    let verdicts = run(&mut LossJudge::default(), 20, 4000, |packet| packet % 5 == 0);
    assert_eq!(verdicts.last(), Some(&Verdict::FullQueue));
}

#[test]
fn silence_before_the_loss_is_a_burst_and_so_is_what_was_under_way_with_it() {
    let (mut judge, start) = (LossJudge::default(), Instant::now());
    for ms in 0..100 {
        judge.on_sent(start + MS * ms, 1000);
        if ms >= 20 {
            judge.on_ack(start + MS * ms, start + MS * (ms - 20), 1000);
        }
    }
    // Nothing for 200 ms, then a probe comes through.
    let probe = start + 300 * MS;
    judge.on_sent(probe, 65);
    let now = probe + 20 * MS;
    judge.on_ack(now, probe, 65);
    assert_eq!(judge.judge(now, start + 90 * MS, 10_000, &path(60)), Verdict::Burst);
    judge.on_sent(now + MS, 1000);
    judge.on_ack(now + 21 * MS, now + MS, 1000);
    assert_eq!(judge.judge(now + 21 * MS, start + 99 * MS, 1000, &path(60)), Verdict::Burst);
    for ms in 30..60 {
        judge.on_sent(now + MS * ms, 1000);
        if ms != 50 {
            judge.on_ack(now + MS * (ms + 20), now + MS * ms, 1000);
        }
    }
    assert_eq!(judge.judge(now + 80 * MS, now + 50 * MS, 1000, &path(60)), Verdict::FullQueue, "sent after its end");
}

#[test]
fn a_link_that_said_it_was_down_is_believed() {
    let (mut judge, now) = (LossJudge::default(), Instant::now());
    judge.on_sent(now, 1000);
    let excused = Path { is_excused: true, ..path(80) };
    assert_eq!(judge.judge(now + 80 * MS, now, 1000, &excused), Verdict::Burst);
}

#[test]
fn a_pause_without_anything_to_send_is_no_silence() {
    let (mut judge, start) = (LossJudge::default(), Instant::now());
    let mut at = start;
    for _ in 0..20 {
        judge.on_sent(at, 1000);
        judge.on_ack(at + 60 * MS, at, 1000);
        at += Duration::from_secs(2);
    }
    for ms in 0..5 {
        judge.on_sent(at + MS * ms, 1000);
    }
    judge.on_ack(at + 60 * MS, at, 1000);
    judge.on_ack(at + 64 * MS, at + 4 * MS, 1000);
    assert_eq!(judge.judge(at + 64 * MS, at + MS, 1000, &path(60)), Verdict::FullQueue);
}

#[test]
fn what_is_remembered_is_bounded() {
    let (mut judge, start) = (LossJudge::default(), Instant::now());
    for ms in 0..2 * SENT_LEN_MAX as u32 {
        judge.on_sent(start + MS * ms, 1000);
    }
    assert_eq!(judge.sent.len(), SENT_LEN_MAX);
}
