//! What goes into the machine and comes out of it.

use std::time::Duration;
use wayfs_types::NodeId;

/// Most dials that are under way at the same time: a volume has at most 64 servers and its home.
pub(crate) const DIALS_MAX: usize = 65;

/// How a machine roams.
#[derive(Debug, Clone)]
pub struct Config {
    /// Which servers may be its parent.
    pub parents: Parents,
    /// Whether it begins online.
    pub is_online: bool,
    /// Pause between measurements of the other servers. Too short costs dials, a few packets each; too long leaves a client at
    /// a server that is not the nearest any more.
    pub measure_period: Duration,
}

/// Which servers may be the parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parents {
    /// All: the machine is a client.
    Any,
    /// The home only: the machine is a station.
    HomeOnly,
}

/// What a server is in a volume. A station, which is there for its site, goes before a home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerKind {
    /// A station.
    Station,
    /// The home.
    Home,
}

/// Which addresses the driver has for a server. It gives another version whenever they change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressVersion(u64);

impl AddressVersion {
    /// A version by the driver's own count.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }
}

/// A server of the volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Its key.
    pub node: NodeId,
    /// What it is.
    pub kind: ServerKind,
    /// Where it is; `None`: no address is known, or it must not be dialled.
    pub addresses: Option<AddressVersion>,
}

/// One dial, and the connection that it makes. Numbers are never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DialId(u64);

impl DialId {
    pub(crate) const fn new(number: u64) -> Self {
        Self(number)
    }
}

/// Something else that the driver does and reports. Numbers are never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskId(u64);

impl TaskId {
    pub(crate) const fn new(number: u64) -> Self {
        Self(number)
    }
}

/// What happens to the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// All servers of the volume that are known. To be given before anything else that happens at the same time.
    Servers(Vec<Server>),
    /// A server has another key: the home changed its own.
    Renamed {
        /// The key that it had.
        was: NodeId,
        /// The key that it has.
        is: NodeId,
    },
    /// The user wants a session.
    GoOnline,
    /// The user wants none.
    GoOffline,
    /// The user chose a server, or leaves the choice to the machine.
    Pinned(Option<NodeId>),
    /// The user wants the other servers measured now.
    MeasureNow,
    /// Something changed that may help, a new ticket for example: what waits for a pause is tried at once.
    LookAgain,
    /// A dial was answered.
    Dialled {
        /// Which.
        dial: DialId,
        /// The key that was proved: that which was dialled, or one that follows it.
        node: NodeId,
        /// Round trip of the new connection.
        rtt: Duration,
    },
    /// A dial failed, or its connection was never made.
    DialFailed {
        /// Which.
        dial: DialId,
    },
    /// A server took this machine as a child.
    Greeted {
        /// The connection.
        dial: DialId,
        /// Its round trip now.
        rtt: Duration,
    },
    /// A handshake failed.
    Refused {
        /// The connection.
        dial: DialId,
        /// Why.
        why: GreetRefusal,
    },
    /// [`Output::Look`] is done, whatever came of it.
    Looked {
        /// The connection, which is closed.
        dial: DialId,
    },
    /// [`Output::SwapNews`] is done, whatever came of it.
    NewsSwapped {
        /// Which.
        task: TaskId,
    },
    /// [`Output::LookAround`] is done, whatever came of it.
    LookedAround {
        /// Which.
        task: TaskId,
    },
    /// [`Output::AskIn`] is done.
    AskedIn {
        /// Which.
        task: TaskId,
        /// What came of it.
        outcome: AskedIn,
    },
    /// The session with the parent ended, and is detached.
    SessionEnded {
        /// The connection that it ran over.
        dial: DialId,
    },
    /// The round trip of the session. To be given before what else happens at the same time.
    ParentRtt(Duration),
    /// Whether programs hold locks that a move may lose. To be given before each [`Input::Dialled`] and [`Input::DialFailed`] beside
    /// a session.
    HoldsLocks(bool),
    /// The time of [`Roam::poll_timeout`](crate::Roam::poll_timeout) has come.
    Tick,
}

/// Why a server did not take this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GreetRefusal {
    /// It says that this machine is no member.
    NotMember,
    /// It is not ready, or does not know this machine yet. The home may not know it either.
    NotReady,
    /// It refuses for another reason, which time will not mend.
    Other,
    /// Nothing was said that can be understood in time.
    Failed,
}

impl GreetRefusal {
    /// Whether trying again soon is pointless.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::NotMember | Self::Other)
    }

    /// Whether a server may say so because it does not know this machine.
    pub(crate) const fn may_not_know_us(self) -> bool {
        matches!(self, Self::NotMember | Self::NotReady)
    }
}

/// What came of asking to be taken in again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedIn {
    /// There is no ticket to ask with.
    NoTicket,
    /// This machine is a member again.
    TakenIn,
    /// It could not be asked, or not now.
    Failed,
    /// The ticket is good for nothing.
    TicketRefused,
}

/// Why there is no session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// No server is known that may be the parent.
    NoServers,
    /// None of them answered.
    Unreachable,
    /// The last of those that answered did not take this machine.
    Refused {
        /// Which.
        server: NodeId,
        /// Why.
        why: GreetRefusal,
    },
    /// The home has taken this machine in again: the next attempt will do.
    TakenIn,
    /// A ticket was presented in vain.
    Ticket {
        /// Whether it is good for nothing.
        is_final: bool,
    },
}

impl Failure {
    /// Whether trying again soon is pointless.
    pub const fn is_final(self) -> bool {
        match self {
            Self::NoServers | Self::Unreachable | Self::TakenIn => false,
            Self::Refused { why, .. } => why.is_final(),
            Self::Ticket { is_final } => is_final,
        }
    }
}

/// Why a server became the parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The user chose it.
    Pinned,
    /// It is the nearest, or about as near.
    Near {
        /// Of how many that answered.
        answered: usize,
    },
    /// It is about as near as the nearest, and the one that all clients take.
    Shared,
}

/// Why the machine ends a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// The user went offline.
    WentOffline,
    /// The parent is a server of the volume no longer.
    Removed,
}

/// What the driver is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Dial a server, and answer [`Input::Dialled`] or [`Input::DialFailed`], in bounded time.
    Dial {
        /// The dial's number.
        dial: DialId,
        /// Whom.
        server: NodeId,
    },
    /// Close a connection, or end a dial, a greeting or a look that is under way. Nothing is answered.
    Close {
        /// Which.
        dial: DialId,
    },
    /// Ask a server to take this machine as a child; answer [`Input::Greeted`] or [`Input::Refused`], in bounded time.
    Greet {
        /// The connection.
        dial: DialId,
    },
    /// Swap news of the servers with one that is not the parent, close the connection, and answer [`Input::Looked`], in bounded time.
    Look {
        /// The connection.
        dial: DialId,
    },
    /// Make a connection, greeted just now, the session.
    Adopt {
        /// The connection.
        dial: DialId,
        /// Why it was chosen.
        why: Why,
    },
    /// The same, in place of the session that there is, which is left.
    MoveTo {
        /// The connection.
        dial: DialId,
        /// Why it was chosen.
        why: Why,
    },
    /// End the session.
    Leave {
        /// Why.
        why: Leaving,
    },
    /// Swap news of the servers with the parent, and answer [`Input::NewsSwapped`], in bounded time.
    SwapNews {
        /// The task's number.
        task: TaskId,
    },
    /// Present a ticket to the home, if there is one, and answer [`Input::AskedIn`], in bounded time.
    AskIn {
        /// The task's number.
        task: TaskId,
    },
    /// Ask servers that may not be the parent where it is, and answer [`Input::LookedAround`].
    LookAround {
        /// The task's number.
        task: TaskId,
    },
    /// End a task that is under way. Nothing is answered.
    StopTask {
        /// Which.
        task: TaskId,
    },
    /// There is no session, by the user's will.
    Offline,
    /// It is looked for a parent again, by the user's will.
    Online,
    /// A search ended without a session.
    Failed(Failure),
}
