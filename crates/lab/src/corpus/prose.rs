//! Words, names, numbers and sentences from a seed.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

const NOUNS: &[&str] = &[
    "piece",
    "square",
    "line",
    "file",
    "rank",
    "move",
    "score",
    "table",
    "entry",
    "queue",
    "clock",
    "node",
    "branch",
    "window",
    "margin",
    "hash",
    "bucket",
    "opening",
    "ending",
    "castle",
    "pawn",
    "bishop",
    "knight",
    "rook",
    "queen",
    "king",
    "side",
    "turn",
    "history",
    "killer",
    "attack",
    "defence",
    "threat",
    "pin",
    "fork",
    "skewer",
    "mate",
    "draw",
    "repetition",
    "counter",
    "depth",
    "bound",
    "alpha",
    "beta",
    "extension",
    "reduction",
    "capture",
    "promotion",
    "evaluation",
    "weight",
    "phase",
    "mobility",
    "shelter",
    "outpost",
    "column",
    "diagonal",
    "mask",
    "shift",
    "offset",
    "index",
    "buffer",
    "token",
    "parser",
    "command",
    "reply",
];
const VERBS: &[&str] = &[
    "find", "count", "scan", "sort", "merge", "split", "weigh", "order", "trim", "fold", "pack", "spread", "probe",
    "update", "clear", "copy", "shift", "mark", "check", "rate", "rank", "build", "follow", "reduce", "extend", "swap",
    "turn", "match",
];
const FILLERS: &[&str] = &[
    "the", "a", "each", "every", "this", "that", "one", "another", "its", "their", "no", "some", "any", "such",
    "the same", "the next",
];
const JOINTS: &[&str] = &[
    "of",
    "in",
    "for",
    "with",
    "without",
    "before",
    "after",
    "under",
    "over",
    "against",
    "from",
    "until",
    "because of",
    "instead of",
    "as well as",
    "which is not",
    "beside",
    "within",
    "unless there is",
    "as if by",
];
const QUALITIES: &[&str] = &[
    "open", "closed", "passed", "isolated", "doubled", "weak", "strong", "quiet", "sharp", "old", "new", "best",
    "worst", "first", "last", "empty", "full", "safe", "free", "lost", "early", "late", "small", "large", "known",
    "unknown", "former", "present",
];

/// Longest line of text.
const WIDTH: usize = 74;

/// A source of words.
pub(super) struct Prose {
    random: ChaCha8Rng,
    /// Names given so far: each gets a number in the end, so that none comes twice.
    names: u32,
}

impl Prose {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: ChaCha8Rng::seed_from_u64(seed), names: 0 }
    }

    /// Below `end`, which is not zero.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.random.next_u32() as usize % end
    }

    /// A number as programs have them: mostly small.
    pub(super) fn number(&mut self) -> u32 {
        let bits = [3, 4, 5, 6, 8, 10, 16, 31][self.below(8)];
        (self.random.next_u32() & ((1 << bits) - 1)) + 1
    }

    pub(super) fn verb(&mut self) -> &'static str {
        VERBS[self.below(VERBS.len())]
    }

    pub(super) fn noun(&mut self) -> &'static str {
        NOUNS[self.below(NOUNS.len())]
    }

    /// A name that no other is like.
    pub(super) fn name(&mut self) -> String {
        self.names += 1;
        format!("{}_{}{}", self.verb(), self.noun(), self.names)
    }

    /// Sentences for a comment that has been opened; each line begins with a star.
    pub(super) fn comment(&mut self, sentences: usize) -> String {
        let text: Vec<String> = (0..sentences).map(|_| self.sentence()).collect();
        wrapped(&text.join(" "), " * ").trim_start_matches(" *").trim_end().to_owned()
    }

    /// Paragraphs of documentation.
    pub(super) fn paragraphs(&mut self, count: usize) -> String {
        let mut text = String::new();
        for _ in 0..count {
            let sentences: Vec<String> = (0..3 + self.below(5)).map(|_| self.sentence()).collect();
            text += &wrapped(&sentences.join(" "), "");
            text.push('\n');
        }
        text
    }

    fn sentence(&mut self) -> String {
        let mut words = vec![self.thing(), format!("{}s", self.verb()), self.thing()];
        for _ in 0..self.below(3) {
            words.push(JOINTS[self.below(JOINTS.len())].to_owned());
            words.push(self.thing());
        }
        let mut text = words.join(" ");
        text[..1].make_ascii_uppercase();
        text + "."
    }

    fn thing(&mut self) -> String {
        let filler = FILLERS[self.below(FILLERS.len())];
        let noun = self.noun();
        if self.below(2) == 0 {
            return format!("{filler} {noun}");
        }
        format!("{filler} {} {noun}", QUALITIES[self.below(QUALITIES.len())])
    }
}

fn wrapped(text: &str, margin: &str) -> String {
    let (mut out, mut line) = (String::new(), margin.to_owned());
    for word in text.split(' ') {
        if line.len() + word.len() > WIDTH {
            out += line.trim_end();
            out.push('\n');
            line = margin.to_owned();
        }
        line += word;
        line.push(' ');
    }
    out + line.trim_end() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_repeats_with_its_seed_and_keeps_to_its_width() {
        let text = Prose::new(1).paragraphs(3);
        assert_eq!(text, Prose::new(1).paragraphs(3));
        assert!(text.lines().all(|line| line.len() <= WIDTH + 20), "{text}");
        let comment = Prose::new(2).comment(4);
        assert!(comment.lines().skip(1).all(|line| line.starts_with(" * ")), "{comment}");
    }
}
