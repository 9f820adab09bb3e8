//! What the driver does for the machine beside its loop: dials, greetings, looks, swaps.

use super::shared::Shared;
use crate::greet::{self, Attach, GreetError, Welcomed};
use crate::handshake::ChildRole;
use crate::join::JoinError;
use crate::servers::{News, ServerInfo, ServerKind, exchange, reach};
use crate::volume::Volume;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{AbortHandle, JoinSet};
use wayfs_net::{ConnectError, Connection};
use wayfs_proto::{PeerId, Role};
use wayfs_roam::{DialId, TaskId};

/// What came of a handshake.
pub(super) type Greeted = (greet::Frames, Welcomed);

/// What is over.
pub(super) enum Done {
    /// With the round trip as it was when the connection was made: what comes later says more of how busy both ends are.
    Dialled {
        dial: DialId,
        server: ServerInfo,
        result: Result<(Connection, Duration), ConnectError>,
    },
    Greeted {
        dial: DialId,
        result: Result<Greeted, GreetError>,
    },
    Looked {
        dial: DialId,
    },
    NewsSwapped {
        task: TaskId,
    },
    LookedAround {
        task: TaskId,
    },
    AskedIn {
        task: TaskId,
        result: Option<Result<News, JoinError>>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Dial(DialId),
    Task(TaskId),
}

/// All that is under way. What is dropped ends.
#[derive(Default)]
pub(super) struct Tasks {
    running: JoinSet<Done>,
    handles: BTreeMap<Name, AbortHandle>,
}

impl Tasks {
    /// The next that is over; `None`: nothing is under way.
    pub(super) async fn next(&mut self) -> Option<Done> {
        loop {
            // A panic ends the process, and what was ended when it was over already is nobody's concern.
            let Ok(done) = self.running.join_next().await? else { continue };
            if self.handles.remove(&done.name()).is_some() {
                return Some(done);
            }
        }
    }

    /// Ends what a dial or its connection is used for.
    pub(super) fn stop_dial(&mut self, dial: DialId) {
        self.stop(Name::Dial(dial));
    }

    pub(super) fn stop_task(&mut self, task: TaskId) {
        self.stop(Name::Task(task));
    }

    fn stop(&mut self, name: Name) {
        if let Some(handle) = self.handles.remove(&name) {
            handle.abort();
        }
    }

    fn spawn(&mut self, name: Name, work: impl Future<Output = Done> + Send + 'static) {
        self.handles.insert(name, self.running.spawn(work));
    }

    pub(super) fn dial(&mut self, link: &Shared, dial: DialId, server: ServerInfo) {
        let endpoint = link.endpoint.clone();
        self.spawn(Name::Dial(dial), async move {
            let connected = endpoint.connect(&server.addresses, server.node).await;
            let result = connected.map(|connection| {
                let rtt = connection.rtt();
                (connection, rtt)
            });
            Done::Dialled { dial, server, result }
        });
    }

    pub(super) fn greet(&mut self, volume: &Volume, dial: DialId, server: &ServerInfo, connection: &Connection) {
        let (attach, connection) = (attach(volume, server), connection.clone());
        self.spawn(Name::Dial(dial), async move {
            let result = greet::attach(&connection, attach).await;
            Done::Greeted { dial, result }
        });
    }

    pub(super) fn look(&mut self, volume: &Arc<Volume>, dial: DialId, connection: Connection) {
        let volume = Arc::clone(volume);
        self.spawn(Name::Dial(dial), async move {
            exchange::look(&volume, &connection).await;
            Done::Looked { dial }
        });
    }

    pub(super) fn swap_news(&mut self, volume: &Arc<Volume>, task: TaskId, parent: Option<PeerId>) {
        let volume = Arc::clone(volume);
        self.spawn(Name::Task(task), async move {
            if let Some(session) = parent.and_then(|parent| volume.session(parent)) {
                exchange::swap(&volume, &session).await;
            }
            Done::NewsSwapped { task }
        });
    }

    pub(super) fn look_around(&mut self, link: &Shared, volume: &Arc<Volume>, task: TaskId) {
        let (volume, endpoint) = (Arc::clone(volume), link.endpoint.clone());
        self.spawn(Name::Task(task), async move {
            // What was heard counts; who was reached does not.
            drop(reach::look_around(&volume, &endpoint, &[]).await);
            Done::LookedAround { task }
        });
    }

    /// Presents the ticket that the user gave, if there is one.
    pub(super) fn ask_in(&mut self, link: &Arc<Shared>, volume: &Arc<Volume>, task: TaskId) {
        let (link, volume) = (Arc::clone(link), Arc::clone(volume));
        self.spawn(Name::Task(task), async move {
            let result = link.readmission.ask(&volume, &link.endpoint).await;
            Done::AskedIn { task, result }
        });
    }
}

impl Done {
    const fn name(&self) -> Name {
        match self {
            Self::Dialled { dial, .. } | Self::Greeted { dial, .. } | Self::Looked { dial } => Name::Dial(*dial),
            Self::NewsSwapped { task } | Self::LookedAround { task } | Self::AskedIn { task, .. } => Name::Task(*task),
        }
    }
}

fn attach(volume: &Volume, server: &ServerInfo) -> Attach {
    let replica = &volume.settings().replica;
    let role = match replica.role {
        Role::Client => ChildRole::Client,
        Role::Home | Role::Station => ChildRole::Station,
    };
    // Only a home that was put back asks for it.
    let admission = volume.admission().filter(|_| server.kind == ServerKind::Home);
    Attach { volume: replica.volume, origin: volume.origin(), role, have: volume.directory().have(), admission }
}
