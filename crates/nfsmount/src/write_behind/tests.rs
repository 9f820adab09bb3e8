use super::*;
use proptest::prelude::*;

const FIRST: WriteVerifier = WriteVerifier([1; 8]);
const SECOND: WriteVerifier = WriteVerifier([2; 8]);

#[test]
fn appended_bytes_leave_in_whole_blocks_and_the_rest_when_asked_for() {
    let mut behind = WriteBehind::default();
    for number in 0..10_u8 {
        behind.write(u64::from(number) * 100, &[number; 100]);
    }
    let part = behind.take(512, Parts::Full).unwrap();
    assert_eq!((part.offset, part.bytes.len(), part.is_alone), (0, 512, false));
    assert_eq!(behind.take(512, Parts::Full), None);
    let rest = behind.take(512, Parts::All).unwrap();
    assert_eq!((rest.offset, rest.bytes.len()), (512, 488));
    assert_eq!((behind.end(), behind.len_in_memory(), behind.sending()), (1000, 1000, 2));
}

#[test]
fn a_later_write_waits_for_an_earlier_one_of_the_same_place() {
    let mut behind = WriteBehind::default();
    behind.write(0, b"old");
    let old = behind.take(4096, Parts::All).unwrap();
    behind.write(1, b"NEW");
    assert_eq!(behind.take(4096, Parts::All), None);
    behind.wrote(old.id, 3, Some(FIRST));
    let new = behind.take(4096, Parts::All).unwrap();
    assert_eq!((new.offset, new.bytes.as_slice()), (1, &b"NEW"[..]));
    // Only the byte that was not overwritten is kept of the old one.
    assert_eq!(behind.unstable_len(), 1);
}

#[test]
fn a_restarted_server_gets_again_what_it_has_not_committed() {
    let mut behind = WriteBehind::default();
    behind.write(0, b"lost");
    let part = behind.take(4096, Parts::All).unwrap();
    behind.wrote(part.id, 4, Some(FIRST));
    let point = behind.commit_point();
    behind.committed(point, SECOND);
    assert!(behind.has_unwritten());
    let part = behind.take(4096, Parts::All).unwrap();
    assert_eq!(part.bytes, b"lost");
    behind.wrote(part.id, 4, Some(SECOND));
    let point = behind.commit_point();
    behind.committed(point, SECOND);
    assert!(behind.is_clean());
}

#[test]
fn a_commit_covers_only_what_was_answered_before_it_was_sent() {
    let mut behind = WriteBehind::default();
    behind.write(0, b"one");
    behind.write(4096, b"two");
    let (one, two) = (behind.take(4096, Parts::All).unwrap(), behind.take(4096, Parts::All).unwrap());
    behind.wrote(one.id, 3, Some(FIRST));
    let point = behind.commit_point();
    behind.wrote(two.id, 3, Some(FIRST));
    behind.committed(point, FIRST);
    assert_eq!(behind.unstable_len(), 3);
}

#[test]
fn a_short_write_sends_the_rest_and_a_truncation_forgets_what_is_beyond() {
    let mut behind = WriteBehind::default();
    behind.write(0, b"abcdef");
    let part = behind.take(4096, Parts::All).unwrap();
    behind.wrote(part.id, 2, None);
    let rest = behind.take(4096, Parts::All).unwrap();
    assert_eq!((rest.offset, rest.bytes.as_slice()), (2, &b"cdef"[..]));
    behind.wrote(rest.id, 4, Some(FIRST));
    behind.cut_to(3);
    assert_eq!((behind.unstable_len(), behind.end()), (1, 3));
}

/// What happens to a file.
#[derive(Debug, Clone)]
enum Step {
    Write(u64, Vec<u8>),
    Take(bool),
    /// The oldest in flight is answered: so many bytes, durable or not.
    Answer(u32, bool),
    Again,
    Commit,
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..200_u64, prop::collection::vec(any::<u8>(), 1..60)).prop_map(|(offset, bytes)| Step::Write(offset, bytes)),
        4 => any::<bool>().prop_map(Step::Take),
        4 => (1..64_u32, any::<bool>()).prop_map(|(count, durable)| Step::Answer(count, durable)),
        1 => Just(Step::Again),
        2 => Just(Step::Commit),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..80)
}

/// A server with what is written and what is durable, and a life.
#[derive(Default)]
struct Server {
    bytes: Vec<u8>,
    durable: Vec<u8>,
    life: u8,
}

impl Server {
    fn put(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset as usize + bytes.len();
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.bytes[offset as usize..end].copy_from_slice(bytes);
    }
}

fn run(steps: Vec<Step>) -> (Vec<u8>, Server) {
    let (mut behind, mut server, mut expected) = (WriteBehind::default(), Server::default(), Vec::new());
    let mut in_flight: Vec<Part> = Vec::new();
    let finish = [Step::Take(true), Step::Answer(64, false), Step::Commit].into_iter().cycle().take(3000);
    for step in steps.into_iter().chain(finish) {
        match step {
            Step::Write(offset, bytes) => {
                let end = offset as usize + bytes.len();
                expected.resize(expected.len().max(end), 0);
                expected[offset as usize..end].copy_from_slice(&bytes);
                behind.write(offset, &bytes);
            }
            Step::Take(all) => in_flight.extend(behind.take(32, if all { Parts::All } else { Parts::Full })),
            Step::Answer(count, durable) if !in_flight.is_empty() => {
                let part = in_flight.remove(0);
                let count = count.min(part.bytes.len() as u32);
                server.put(part.offset, &part.bytes[..count as usize]);
                if durable {
                    server.durable = server.bytes.clone();
                }
                behind.wrote(part.id, count, (!durable).then_some(WriteVerifier([server.life; 8])));
            }
            Step::Again if !in_flight.is_empty() => behind.again(in_flight.remove(0).id),
            Step::Commit => {
                let point = behind.commit_point();
                server.durable = server.bytes.clone();
                behind.committed(point, WriteVerifier([server.life; 8]));
            }
            Step::Restart => {
                server.bytes = server.durable.clone();
                server.life += 1;
            }
            Step::Answer(..) | Step::Again => {}
        }
    }
    assert!(behind.is_clean(), "{behind:?}");
    (expected, server)
}

proptest! {
    /// Whatever is written, lost, restarted and sent again: in the end the server's disk has what programs wrote.
    #[test]
    fn in_the_end_the_disk_has_what_was_written(steps in steps()) {
        let (expected, server) = run(steps);
        prop_assert_eq!(&server.durable, &expected);
    }
}
