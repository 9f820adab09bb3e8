//! The driver of `wayfs_roam::Roam`: one task that feeds it and carries out what it wants. It decides nothing.

use super::adopting::{Live, Welcome};
use super::known_servers::KnownServers;
use super::shared::Shared;
use super::status::LinkState;
use super::tasks::{Done, Greeted, Tasks};
use super::words::{LastErrors, asked_in, reason, refusal};
use crate::clock;
use crate::greet::GreetError;
use crate::handshake::Refusal;
use crate::join::JoinError;
use crate::live_replica::LiveReplica;
use crate::servers::{News, ServerInfo, ServerKind};
use crate::volume::Volume;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tracing::debug;
use wayfs_net::{CloseCode, ConnectError, Connection};
use wayfs_proto::Role;
use wayfs_roam::{AskedIn, Config, DialId, Input, Output, Parents, Roam, Why};
use wayfs_types::NodeId;

/// A connection that was dialled and is not the session.
struct Dialled {
    server: ServerInfo,
    connection: Connection,
    greeted: Option<Greeted>,
}

/// Everything that is live.
pub(super) struct Driver {
    link: Arc<Shared>,
    roam: Roam,
    servers: KnownServers,
    /// The key of the pinned server that the machine knows.
    pinned: Option<NodeId>,
    dialled: BTreeMap<DialId, Dialled>,
    tasks: Tasks,
    live: Option<Live>,
    last: LastErrors,
    /// What the machine is fed next.
    inputs: VecDeque<Input>,
}

impl Driver {
    pub(super) fn new(link: Arc<Shared>, role: Role) -> Self {
        let config = Config {
            parents: if role == Role::Client { Parents::Any } else { Parents::HomeOnly },
            is_online: !link.settings.offline,
            measure_period: link.settings.measure_period,
        };
        Self {
            link,
            roam: Roam::new(config, clock::now()),
            servers: KnownServers::default(),
            pinned: None,
            dialled: BTreeMap::new(),
            tasks: Tasks::default(),
            live: None,
            last: LastErrors::default(),
            inputs: VecDeque::new(),
        }
    }

    /// Feeds the machine until the volume is gone.
    pub(super) async fn run(mut self) {
        let Some(mut changes) = self.link.volume.upgrade().map(|volume| volume.directory().subscribe()) else { return };
        while let Some(volume) = self.link.volume.upgrade().filter(|volume| !volume.is_stopped()) {
            self.feed(&volume);
            drop(volume);
            self.wait(&mut changes).await;
        }
        if let Some(live) = &self.live {
            live.connection.close(CloseCode::GOODBYE, "");
        }
    }

    /// Waits until something happens, and takes it in.
    async fn wait(&mut self, changes: &mut watch::Receiver<u64>) {
        let wait = self.roam.poll_timeout().map(|at| at.since(clock::now()));
        let closed = self.live.as_ref().map(|live| live.connection.clone());
        let input = tokio::select! {
            () = self.link.changed.notified() => {
                self.inputs.extend(self.link.lock().wishes.take());
                return;
            }
            // A list that changed is told before any input. Without a directory there is no volume.
            _ = changes.changed() => return,
            Some(done) = self.tasks.next() => self.done(done),
            () = ended(closed) => self.lost(),
            () = sleep(wait) => Some(Input::Tick),
        };
        self.inputs.extend(input);
    }

    /// Feeds what has happened, behind what must be known of the moment, and carries out what comes of it.
    fn feed(&mut self, volume: &Arc<Volume>) {
        self.tell_servers(volume);
        while let Some(input) = self.inputs.pop_front() {
            self.tell_session(volume, &input);
            let input = match input {
                // The one that the user chose may have changed its key.
                Input::Pinned(server) => {
                    self.pinned = server.map(|server| volume.directory().follow(server));
                    Input::Pinned(self.pinned)
                }
                input => input,
            };
            self.handle(volume, input);
            self.tell_servers(volume);
        }
        self.link.lock().measure_at = self.roam.measures_at();
    }

    fn handle(&mut self, volume: &Arc<Volume>, input: Input) {
        self.roam.handle(clock::now(), input);
        while let Some(output) = self.roam.poll_output() {
            self.carry_out(volume, output);
        }
    }

    fn tell_servers(&mut self, volume: &Arc<Volume>) {
        let directory = volume.directory();
        if let Some((was, is)) = self.pinned.map(|was| (was, directory.follow(was))).filter(|(was, is)| was != is) {
            self.pinned = Some(is);
            self.handle(volume, Input::Renamed { was, is });
        }
        if let Some(servers) = self.servers.update(self.link.servers(), self.link.endpoint.id()) {
            self.handle(volume, Input::Servers(servers));
        }
    }

    fn tell_session(&mut self, volume: &Arc<Volume>, before: &Input) {
        let Some(rtt) = self.live.as_ref().map(|live| live.connection.rtt()) else { return };
        self.handle(volume, Input::ParentRtt(rtt));
        // Only servers that answered are compared with the parent: at other times the engine's lock need not be waited for.
        if matches!(before, Input::Dialled { .. } | Input::DialFailed { .. }) {
            let holds_locks = volume.lock().replica.as_ref().is_some_and(LiveReplica::holds_locks);
            self.handle(volume, Input::HoldsLocks(holds_locks));
        }
    }

    /// The session ended by itself.
    fn lost(&mut self) -> Option<Input> {
        let live = self.live.take()?;
        self.link.note_lost(&live);
        Some(Input::SessionEnded { dial: live.dial })
    }

    /// What is over, for the machine.
    fn done(&mut self, done: Done) -> Option<Input> {
        Some(match done {
            Done::Dialled { dial, server, result } => self.dial_done(dial, server, result),
            Done::Greeted { dial, result } => return self.greet_done(dial, result),
            Done::Looked { dial } => {
                self.dialled.remove(&dial);
                Input::Looked { dial }
            }
            Done::NewsSwapped { task } => Input::NewsSwapped { task },
            Done::LookedAround { task } => Input::LookedAround { task },
            Done::AskedIn { task, result } => Input::AskedIn { task, outcome: self.asked_in(result) },
        })
    }

    fn dial_done(
        &mut self,
        dial: DialId,
        mut server: ServerInfo,
        result: Result<(Connection, Duration), ConnectError>,
    ) -> Input {
        if let Ok((connection, _)) = &result {
            // The home may answer with a new key, which follows the one that is known.
            server.node = connection.peer();
        }
        let mut state = self.link.lock();
        let measured = state.measured.entry(server.node).or_default();
        measured.at = Some(clock::wall());
        match result {
            Ok((connection, rtt)) => {
                let node = server.node;
                (measured.rtt, measured.error) = (Some(rtt), None);
                drop(state);
                self.dialled.insert(dial, Dialled { server, connection, greeted: None });
                Input::Dialled { dial, node, rtt }
            }
            Err(error) => {
                measured.error = Some(error.to_string());
                Input::DialFailed { dial }
            }
        }
    }

    fn greet_done(&mut self, dial: DialId, result: Result<Greeted, GreetError>) -> Option<Input> {
        let dialled = self.dialled.get_mut(&dial)?;
        Some(match result {
            Ok(greeted) => {
                dialled.greeted = Some(greeted);
                Input::Greeted { dial, rtt: dialled.connection.rtt() }
            }
            Err(error) => {
                let server = dialled.server.clone();
                self.note_refusal(&server, &error);
                Input::Refused { dial, why: refusal(&error) }
            }
        })
    }

    fn note_refusal(&mut self, server: &ServerInfo, error: &GreetError) {
        debug!(node = %server.node.short(), %error, "server does not take us");
        self.last.greeting = format!("{}: {error}", server.label);
        let deleted = matches!(error, GreetError::Refused(Refusal::Deleted));
        let mut state = self.link.lock();
        state.measured.entry(server.node).or_default().error = Some(error.to_string());
        state.deleted |= deleted;
        drop(state);
        // Of a station it is hearsay.
        if deleted
            && server.kind == ServerKind::Home
            && let Some(volume) = self.link.volume.upgrade()
        {
            volume.hooks.deleted();
        }
    }

    fn asked_in(&mut self, result: Option<Result<News, JoinError>>) -> AskedIn {
        match result {
            None => AskedIn::NoTicket,
            Some(Ok(news)) => {
                if let Some(volume) = self.link.volume.upgrade() {
                    volume.take_news(news);
                }
                AskedIn::TakenIn
            }
            Some(Err(error)) => {
                self.last.ticket = error.to_string();
                asked_in(&error)
            }
        }
    }

    fn carry_out(&mut self, volume: &Arc<Volume>, output: Output) {
        match output {
            Output::Dial { dial, server } => match self.servers.find(server) {
                Some(server) => self.tasks.dial(&self.link, dial, server.clone()),
                None => self.inputs.push_back(Input::DialFailed { dial }),
            },
            Output::Close { dial } => self.close(dial),
            Output::Greet { dial } => {
                if let Some(Dialled { server, connection, .. }) = self.dialled.get(&dial) {
                    self.tasks.greet(volume, dial, server, connection);
                }
            }
            Output::Look { dial } => {
                if let Some(Dialled { connection, .. }) = self.dialled.get(&dial) {
                    self.tasks.look(volume, dial, connection.clone());
                }
            }
            Output::Adopt { dial, why } | Output::MoveTo { dial, why } => self.adopt(volume, dial, why),
            Output::Leave { why } => {
                if let Some(live) = self.live.take() {
                    self.link.leave(&live, why);
                }
            }
            Output::SwapNews { task } => {
                self.tasks.swap_news(volume, task, self.live.as_ref().map(|live| live.peer));
            }
            Output::AskIn { task } => self.tasks.ask_in(&self.link, volume, task),
            Output::LookAround { task } => self.tasks.look_around(&self.link, volume, task),
            Output::StopTask { task } => self.tasks.stop_task(task),
            Output::Offline => self.link.set(LinkState::Offline),
            Output::Online => self.link.set(LinkState::Searching { last_error: String::new() }),
            Output::Failed(failure) => self.link.set(self.link.state_after(failure, &self.last)),
        }
    }

    fn close(&mut self, dial: DialId) {
        self.tasks.stop_dial(dial);
        if let Some(dialled) = self.dialled.remove(&dial) {
            dialled.connection.close(CloseCode::GOODBYE, "");
        }
    }

    fn adopt(&mut self, volume: &Arc<Volume>, dial: DialId, why: Why) {
        let Some(Dialled { server, connection, greeted: Some(greeted) }) = self.dialled.remove(&dial) else { return };
        let old = self.live.take();
        let mut why = reason(why, connection.rtt());
        if let Some(old) = &old {
            why = format!("{why} instead of {}", old.server.label);
        }
        let new = Welcome { dial, server, connection, greeted };
        self.live = Some(self.link.adopt(volume, old.as_ref(), new, why));
    }
}

/// The end of a connection, if there is one.
async fn ended(connection: Option<Connection>) {
    match connection {
        Some(connection) => drop(connection.closed().await),
        None => std::future::pending().await,
    }
}

async fn sleep(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}
