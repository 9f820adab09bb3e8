//! Closes at one mount and looks at another until each close is seen there.
//!
//! A close counts from the moment before `close` is called. It counts as seen when `stat` at the other mount shows the
//! new size. Both moments are read from one clock. Looking is almost free and disturbs nothing: the kernel answers from
//! its cache, without a word to the file system's program, until that program tells it that the file changed. A look
//! at all files that are under way every millisecond finds a change late by a millisecond and a little.

use crate::LabError;
use crate::experiments::links::Poisson;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(1);
/// A close that is not seen after this long is given up.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// What files hold first.
const OLD_LEN: usize = 50;
/// What they hold after the close that is timed: little enough to travel within the record.
const NEW_LEN: usize = 100;

/// Two views of one directory.
#[derive(Debug, Clone)]
pub(super) struct Views {
    pub(super) writer: PathBuf,
    pub(super) reader: PathBuf,
}

/// What became of one close.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    /// When, since the first.
    pub(super) closed: Duration,
    /// How long until it was seen; `None`: not within a minute.
    pub(super) lag: Option<Duration>,
    /// Whether what was read then was what had been written.
    pub(super) right: bool,
}

/// A close under way.
struct Closed {
    number: usize,
    at: Instant,
}

/// Makes the files and waits until the reader knows each of them, so that its kernel has them cached.
pub(super) fn prepare(views: &Views, count: usize) -> Result<(), LabError> {
    std::fs::create_dir(&views.writer).map_err(LabError::io("make the directory of small files"))?;
    for number in 0..count {
        let path = views.writer.join(number.to_string());
        std::fs::write(&path, vec![b'a'; OLD_LEN]).map_err(LabError::io("make a small file"))?;
    }
    let start = Instant::now();
    for number in 0..count {
        while !shows(&views.reader.join(number.to_string()), OLD_LEN) {
            if start.elapsed() > 2 * PATIENCE {
                return Err(LabError::TimedOut {
                    what: "the other site to see new files".into(),
                    within: 2 * PATIENCE,
                });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}

/// Changes each file once, at random times, and sees how long each change takes.
pub(super) fn run(views: &Views, count: usize, pause: Duration, seed: u64) -> Result<Vec<Sample>, LabError> {
    let (told, closes) = channel();
    let start = Instant::now();
    std::thread::scope(|scope| {
        let writing = scope.spawn(move || write(&views.writer, count, pause, seed, &told));
        let samples = look(&views.reader, &closes, start);
        writing.join().expect("the writer does not panic")?;
        Ok(samples)
    })
}

fn write(directory: &Path, count: usize, pause: Duration, seed: u64, told: &Sender<Closed>) -> Result<(), LabError> {
    let doing = || LabError::io("change a small file");
    for (number, wait) in Poisson::new(seed, pause.as_secs_f64()).take(count).enumerate() {
        std::thread::sleep(Duration::from_secs_f64(wait));
        let mut file = File::create(directory.join(number.to_string())).map_err(doing())?;
        file.write_all(&[b'b'; NEW_LEN]).map_err(doing())?;
        let at = Instant::now();
        drop(file);
        // Who listens goes on until the writer has ended.
        let _ = told.send(Closed { number, at });
    }
    Ok(())
}

fn look(directory: &Path, closes: &Receiver<Closed>, start: Instant) -> Vec<Sample> {
    let (mut samples, mut waiting): (Vec<Sample>, Vec<Closed>) = (Vec::new(), Vec::new());
    let mut writing = true;
    while writing || !waiting.is_empty() {
        loop {
            match closes.try_recv() {
                Ok(closed) => waiting.push(closed),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    writing = false;
                    break;
                }
            }
        }
        waiting.retain(|closed| {
            let seen = shows(&directory.join(closed.number.to_string()), NEW_LEN);
            let lag = closed.at.elapsed();
            if !seen && lag < PATIENCE {
                return true;
            }
            let right = seen && reads(directory, closed.number);
            samples.push(Sample { closed: closed.at - start, lag: seen.then_some(lag), right });
            false
        });
        std::thread::sleep(LOOK);
    }
    samples
}

/// Whether `stat` shows a file of this length. One that cannot be reached is not seen.
fn shows(path: &Path, len: usize) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.len() == len as u64)
}

fn reads(directory: &Path, number: usize) -> bool {
    std::fs::read(directory.join(number.to_string())).is_ok_and(|bytes| bytes == [b'b'; NEW_LEN])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_one_directory_every_close_is_seen_at_once_and_read_right() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("files");
        let views = Views { writer: directory.clone(), reader: directory };
        prepare(&views, 20).unwrap();
        let samples = run(&views, 20, Duration::from_millis(5), 1).unwrap();
        assert_eq!(samples.len(), 20);
        assert!(samples.iter().all(|sample| sample.right && sample.lag.is_some()));
    }

    #[test]
    fn what_is_not_there_is_not_seen() {
        let place = tempfile::tempdir().unwrap();
        assert!(!shows(&place.path().join("1"), OLD_LEN) && !reads(place.path(), 1));
    }
}
