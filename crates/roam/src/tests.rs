//! A driver in virtual time for the machine's tests, which writes down what it is asked to do.

mod moving;
mod random;
mod searching;

use crate::api::{
    AddressVersion, AskedIn, Config, DialId, GreetRefusal, Input, Leaving, Output, Parents, Server, ServerKind, Why,
};
use crate::machine::Roam;
use std::collections::BTreeMap;
use std::time::Duration;
use wayfs_types::{NodeId, Time};

/// A dial that nobody answers ends after this time.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A server of the tests, called by a letter; `h` is the home.
struct Site {
    server: Server,
    rtt: Duration,
    is_up: bool,
    refuses: Option<GreetRefusal>,
    /// Round trips of the next dials, which noise made.
    noise: Vec<Duration>,
}

/// The driver.
struct Bench {
    roam: Roam,
    now: Time,
    sites: BTreeMap<char, Site>,
    /// What is answered when, in order.
    answers: BTreeMap<(Time, u64), Input>,
    dials: BTreeMap<DialId, char>,
    session: Option<DialId>,
    ticket: AskedIn,
    log: Vec<String>,
    count: u64,
    is_told: bool,
}

impl Bench {
    /// A client that knows some servers by their round trips in milliseconds.
    fn client(sites: &[(char, u64)]) -> Self {
        Self::new(Parents::Any, sites)
    }

    fn new(parents: Parents, sites: &[(char, u64)]) -> Self {
        let config = Config { parents, is_online: true, measure_period: Duration::from_secs(60) };
        Self {
            roam: Roam::new(config, Time::ZERO),
            now: Time::ZERO,
            sites: sites.iter().map(|(name, rtt)| (*name, Site::new(*name, *rtt))).collect(),
            answers: BTreeMap::new(),
            dials: BTreeMap::new(),
            session: None,
            ticket: AskedIn::NoTicket,
            log: Vec::new(),
            count: 0,
            is_told: false,
        }
    }

    fn site(&mut self, name: char) -> &mut Site {
        self.sites.get_mut(&name).expect("a server of this test")
    }

    /// Tells the machine of the servers; what comes first does so, too.
    fn tell_servers(&mut self) {
        self.is_told = true;
        let servers = self.sites.values().map(|site| site.server.clone()).collect();
        self.feed(Input::Servers(servers));
    }

    /// Feeds an input, and does what comes out.
    fn feed(&mut self, input: Input) {
        if !self.is_told {
            self.tell_servers();
        }
        if let Some(dial) = self.session {
            let rtt = self.sites.get(&self.dials[&dial]).map_or(ms(1), |site| site.rtt);
            self.roam.handle(self.now, Input::ParentRtt(rtt));
        }
        self.roam.handle(self.now, input);
        while let Some(output) = self.roam.poll_output() {
            let line = self.line(&output);
            self.log.push(format!("{} {line}", self.now.as_micros() / 1000));
            self.carry_out(output);
        }
    }

    /// Runs for so many milliseconds; answers what was asked meanwhile, each line with its time.
    fn run(&mut self, span: u64) -> Vec<String> {
        let end = self.now + ms(span);
        if !self.is_told {
            self.tell_servers();
        }
        loop {
            let answer = self.answers.keys().next().copied();
            let timeout = self.roam.poll_timeout();
            let next = answer.map(|(at, _)| at).into_iter().chain(timeout).min().filter(|at| *at <= end);
            let Some(next) = next else { break };
            self.now = self.now.max(next);
            match answer.filter(|(at, _)| *at <= self.now).and_then(|key| self.answers.remove(&key)) {
                Some(input) => self.feed(input),
                None => self.feed(Input::Tick),
            }
        }
        self.now = end;
        std::mem::take(&mut self.log)
    }

    /// The same, but for dials, closes, and swaps of news.
    fn run_for_greetings(&mut self, span: u64) -> Vec<String> {
        let mut log = self.run(span);
        log.retain(|line| ["dial", "close", "swap"].iter().all(|word| !line.contains(word)));
        log
    }

    fn end_session(&mut self) {
        let dial = self.session.take().expect("a session");
        self.feed(Input::SessionEnded { dial });
    }

    fn parent(&self) -> Option<char> {
        let parent = self.roam.parent()?;
        self.sites.values().find(|site| site.server.node == parent).map(Site::name)
    }

    fn answer(&mut self, after: Duration, input: Input) {
        self.count += 1;
        self.answers.insert((self.now + after, self.count), input);
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Dial { dial, server } => self.dial(dial, server),
            Output::Close { dial } => self.answers.retain(|_, input| !is_about(input, dial)),
            Output::Greet { dial } => {
                let site = &self.sites[&self.dials[&dial]];
                let input = match site.refuses {
                    Some(why) => Input::Refused { dial, why },
                    None => Input::Greeted { dial, rtt: site.rtt },
                };
                self.answer(site.rtt, input);
            }
            Output::Look { dial } => self.answer(self.sites[&self.dials[&dial]].rtt, Input::Looked { dial }),
            Output::Adopt { dial, .. } | Output::MoveTo { dial, .. } => self.session = Some(dial),
            Output::Leave { .. } => self.session = None,
            Output::SwapNews { task } => self.answer(ms(1), Input::NewsSwapped { task }),
            Output::AskIn { task } => self.answer(ms(10), Input::AskedIn { task, outcome: self.ticket }),
            Output::LookAround { task } => self.answer(ms(20), Input::LookedAround { task }),
            Output::StopTask { .. } | Output::Offline | Output::Online | Output::Failed(_) => {}
        }
    }

    fn dial(&mut self, dial: DialId, server: NodeId) {
        let site = self.sites.values_mut().find(|site| site.server.node == server).expect("a known server");
        let rtt = site.noise.pop().unwrap_or(site.rtt);
        let (name, is_up) = (site.name(), site.is_up);
        self.dials.insert(dial, name);
        match is_up {
            true => self.answer(rtt, Input::Dialled { dial, node: server, rtt }),
            false => self.answer(DIAL_TIMEOUT, Input::DialFailed { dial }),
        }
    }

    /// An output in short.
    fn line(&self, output: &Output) -> String {
        let name = |dial: &DialId| self.dials[dial];
        match output {
            Output::Dial { server, .. } => format!("dial {}", letter(*server)),
            Output::Close { dial } => format!("close {}", name(dial)),
            Output::Greet { dial } => format!("greet {}", name(dial)),
            Output::Look { dial } => format!("look {}", name(dial)),
            Output::Adopt { dial, why } => format!("adopt {} {}", name(dial), reason(*why)),
            Output::MoveTo { dial, why } => format!("move {} {}", name(dial), reason(*why)),
            Output::Leave { why: Leaving::WentOffline } => "leave".to_owned(),
            Output::Leave { why: Leaving::Removed } => "leave removed".to_owned(),
            Output::SwapNews { .. } => "swap".to_owned(),
            Output::AskIn { .. } => "ask in".to_owned(),
            Output::LookAround { .. } => "look around".to_owned(),
            Output::StopTask { .. } => "stop".to_owned(),
            Output::Offline => "offline".to_owned(),
            Output::Online => "online".to_owned(),
            Output::Failed(failure) if failure.is_final() => "failed for long".to_owned(),
            Output::Failed(_) => "failed".to_owned(),
        }
    }
}

impl Site {
    fn new(name: char, rtt: u64) -> Self {
        let kind = if name == 'h' { ServerKind::Home } else { ServerKind::Station };
        let node = NodeId::from_bytes([name as u8; 32]);
        let server = Server { node, kind, addresses: Some(AddressVersion::new(0)) };
        Self { server, rtt: ms(rtt), is_up: true, refuses: None, noise: Vec::new() }
    }

    fn name(&self) -> char {
        letter(self.server.node)
    }
}

fn letter(node: NodeId) -> char {
    char::from(node.as_bytes()[0])
}

fn node(name: char) -> NodeId {
    NodeId::from_bytes([name as u8; 32])
}

fn reason(why: Why) -> String {
    match why {
        Why::Pinned => "pinned".to_owned(),
        Why::Near { answered } => format!("near of {answered}"),
        Why::Shared => "shared".to_owned(),
    }
}

fn is_about(input: &Input, closed: DialId) -> bool {
    match input {
        Input::Dialled { dial, .. }
        | Input::DialFailed { dial }
        | Input::Greeted { dial, .. }
        | Input::Refused { dial, .. } => *dial == closed,
        _ => false,
    }
}
