//! The base: answers handshakes, gives addresses out, and runs the engine.

use crate::LinkError;
use crate::LinkTicket;
use crate::config::{BaseConfig, Pool};
use crate::engine::{Admission, Engine, Mtu, Order, Table};
use crate::greeting::{self, Answer, Hello, VERSION, Welcome};
use crate::keys::{Keys, Role};
use crate::news::News;
use crate::split::{Plan, Split};
use crate::tun::Tun;
use crate::wake::{Orders, orders};
use crate::{clock, host, state};
use rand::TryRngCore;
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::{debug, info};
use wayfs_hop::Scheme;
use wayfs_net::{CloseCode, Connection, Endpoint, NetConfig, TicketSecret};
use wayfs_types::{NodeId, Time};

/// Handshakes at once.
const GREETINGS_MAX: usize = 64;
/// Longest time for one.
const GREETING_WITHIN: Duration = Duration::from_secs(10);
/// An address is given to another mobile if nothing was heard of its owner for so long. Mobiles do a handshake every 10 minutes.
const ADDRESS_KEPT: Duration = Duration::from_secs(3600);
/// The scheme of a base that was told none.
pub(crate) const SCHEME_DEFAULT: &str = "ours";

/// Ends a link from another thread.
#[derive(Debug, Clone)]
pub struct Stopper {
    pub(crate) orders: Orders<Order>,
}

impl Stopper {
    /// Tells the other ends, and ends the link.
    pub fn stop(&self) {
        self.orders.give(Order::Stop);
    }
}

/// A base that runs.
#[derive(Debug)]
pub struct StartedBase {
    /// For mobiles.
    pub ticket: LinkTicket,
    /// Ends it.
    pub stopper: Stopper,
    /// Its own address over the link.
    pub address: std::net::IpAddr,
}

/// Whether selective acknowledgements are used towards a mobile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sack {
    Off,
    On,
}

/// Where connections are joined: made for the first mobile that needs it, with and without selective acknowledgements.
#[derive(Debug)]
struct Rooms {
    plan: Plan,
    runtime: Handle,
    open: Mutex<BTreeMap<Sack, Arc<Split>>>,
}

impl Rooms {
    fn of(&self, sack: Sack) -> Result<Arc<Split>, LinkError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(split) = open.get(&sack) {
            return Ok(Arc::clone(split));
        }
        let split = Arc::new(Split::open(Plan { selective: sack == Sack::On, ..self.plan }, self.runtime.clone())?);
        open.insert(sack, Arc::clone(&split));
        Ok(split)
    }
}

/// What all handshakes share.
struct Desk {
    secret: TicketSecret,
    scheme: Option<(String, Scheme)>,
    window: u32,
    mtu: u16,
    port: u16,
    life: u64,
    pool: Pool,
    rooms: Rooms,
    orders: Orders<Order>,
    /// Who has which number, and when it was here last.
    numbers: Mutex<BTreeMap<NodeId, (usize, Time)>>,
}

/// Runs a base until it is stopped. `started` hears when mobiles may come.
///
/// # Errors
/// [`LinkError`] says what is missing, or what went away.
pub fn run_base(config: &BaseConfig, started: impl FnOnce(&StartedBase)) -> Result<(), LinkError> {
    config.common.settings.check()?;
    let identity = state::identity(&config.common.state)?;
    let secret = match config.new_ticket {
        true => state::new_secret(&config.common.state)?,
        false => state::secret(&config.common.state)?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(LinkError::io("start a thread for handshakes"))?;
    let endpoint = {
        let _inside = runtime.enter();
        Endpoint::bind(config.listen, &identity, NetConfig::default())
            .map_err(|error| LinkError::Bind { address: config.listen.to_string(), error: error.to_string() })?
    };
    let listen = endpoint.local_addr().map_err(LinkError::io("ask for the own port"))?;
    let addresses = match config.addresses.as_slice() {
        [] if listen.ip().is_unspecified() => return Err(LinkError::NoAddress),
        [] => vec![listen.into()],
        given => given.to_vec(),
    };
    let ticket = LinkTicket { base: identity.id(), secret: secret.clone(), addresses };
    let udp = bind_data(listen, config.listen.port())?;
    let port = udp.local_addr().map_err(LinkError::io("ask for the own port"))?.port();
    let news = News::listen(&config.common.socket)?;
    let tun = Tun::create(&config.common.tun)?;
    let own = config.pool.addresses(0);
    host::set_up(tun.name(), &own, config.common.mtu)?;
    host::forward()?;
    let rooms = Rooms {
        plan: Plan { pool: config.pool, mtu: config.common.mtu, selective: false },
        runtime: runtime.handle().clone(),
        open: Mutex::default(),
    };
    if let Some((_, Scheme::Split { selective })) = config.common.scheme {
        rooms.of(if selective { Sack::On } else { Sack::Off })?;
    }
    let (orders, inbox) = orders().map_err(LinkError::io("make an event"))?;
    let desk = Arc::new(Desk {
        secret,
        scheme: config.common.scheme.clone(),
        window: config.common.settings.window.unwrap_or(crate::config::WINDOW_MAX),
        mtu: config.common.mtu,
        port,
        life: random(),
        pool: config.pool,
        rooms,
        orders: orders.clone(),
        numbers: Mutex::new(BTreeMap::new()),
    });
    runtime.spawn(answer_all(endpoint.clone(), desk));
    started(&StartedBase { ticket, stopper: Stopper { orders }, address: own.v4.into() });
    let engine = Engine {
        role: Role::Base,
        tun,
        udp,
        news,
        inbox,
        settings: config.common.settings,
        mtu: Mtu { wanted: config.common.mtu, now: config.common.mtu, look_at: clock::now(), here: None },
        redial: None,
        table: Table::default(),
    };
    let result = engine.run();
    runtime.block_on(endpoint.close(CloseCode::SHUTDOWN, "the base ends"));
    runtime.shutdown_timeout(Duration::from_secs(1));
    result
}

/// The socket for datagrams: the port after that of handshakes, or any if that was any.
fn bind_data(listen: SocketAddr, wanted: u16) -> Result<UdpSocket, LinkError> {
    let port = if wanted == 0 { 0 } else { wanted.checked_add(1).unwrap_or(0) };
    data_socket(SocketAddr::new(listen.ip(), port))
}

/// A socket for datagrams.
pub(crate) fn data_socket(at: SocketAddr) -> Result<UdpSocket, LinkError> {
    let failed = |error: std::io::Error| LinkError::Bind { address: at.to_string(), error: error.to_string() };
    let socket = UdpSocket::bind(at).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    host::allow_fragments(&socket);
    // The kernel grants what its own limit allows.
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 2 << 20);
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, 1 << 20);
    Ok(socket)
}

/// A random number; only that it differs from those of other lives matters.
pub(crate) fn random() -> u64 {
    rand::rngs::OsRng.try_next_u64().unwrap_or_else(|_| clock::now().as_micros())
}

async fn answer_all(endpoint: Endpoint, desk: Arc<Desk>) {
    let places = Arc::new(Semaphore::new(GREETINGS_MAX));
    while let Some(connection) = endpoint.accept().await {
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            connection.close(CloseCode::NOT_ADMITTED, "too many come at once");
            continue;
        };
        let desk = Arc::clone(&desk);
        tokio::spawn(async move {
            if timeout(GREETING_WITHIN, answer(&connection, &desk)).await.is_err() {
                debug!(peer = %connection.peer(), "a handshake took too long");
            }
            drop(place);
        });
    }
}

async fn answer(connection: &Connection, desk: &Desk) {
    let Some((sender, mut receiver)) = connection.control() else { return };
    let Ok(Some(frame)) = receiver.recv().await else { return };
    let answer = match greeting::decode_hello(&frame) {
        None => Answer::Refused("the greeting makes no sense: install the same version at both ends".into()),
        Some(hello) => desk.judge(connection, &hello),
    };
    match &answer {
        Answer::Welcome(welcome) => info!(peer = %connection.peer(), address = %welcome.yours.v4, "a mobile is in"),
        Answer::Refused(why) => info!(peer = %connection.peer(), %why, "a mobile was refused"),
    }
    if sender.send(greeting::encode(&answer).into()).await.is_ok() {
        // The mobile closes when it has read the answer.
        connection.closed().await;
    }
}

impl Desk {
    fn judge(&self, connection: &Connection, hello: &Hello) -> Answer {
        let binding = connection.channel_binding();
        let refused = |why: &str| Answer::Refused(why.to_owned());
        if hello.version != VERSION {
            return refused("it has another version: install the same one at both ends");
        }
        let known = hello.ticket == *self.secret.id().as_bytes();
        if !known || !self.secret.verify(&binding, connection.peer(), &hello.proof) {
            return refused("the ticket is not valid here, or no longer: get a new one from `wayfs link base`");
        }
        let scheme = match self.scheme(&hello.scheme) {
            Ok(scheme) => scheme,
            Err(why) => return Answer::Refused(why),
        };
        let split = match scheme.1 {
            Scheme::Split { selective } => match self.rooms.of(if selective { Sack::On } else { Sack::Off }) {
                Ok(split) => Some(split),
                Err(error) => return Answer::Refused(error.to_string()),
            },
            Scheme::None | Scheme::Arq(_) | Scheme::Snoop(_) | Scheme::Fec { .. } => None,
        };
        let Some(number) = self.number(connection.peer()) else {
            return refused("all its addresses are given out: give it a larger --pool");
        };
        let (yours, mine) = (self.pool.addresses(number), self.pool.addresses(0));
        let window = self.window.min(hello.window).max(1);
        let ours = random() as u32;
        let admission = Admission {
            peer: connection.peer(),
            addresses: yours,
            life: hello.life,
            scheme: scheme.clone(),
            split,
            window,
            keys: Keys::new(Role::Base, &binding),
            ours,
            theirs: hello.session,
            at: None,
        };
        if !self.orders.give(Order::Admit(Box::new(admission))) {
            return refused("it is busy: try again in a moment");
        }
        let mtu = self.mtu.min(hello.mtu);
        Answer::Welcome(Welcome {
            life: self.life,
            session: ours,
            scheme: scheme.0,
            window,
            mtu,
            port: self.port,
            yours,
            mine,
        })
    }

    /// The scheme that both ends want.
    fn scheme(&self, wanted: &str) -> Result<(String, Scheme), String> {
        let parse = |name: &str| {
            name.parse::<Scheme>().map(|scheme| (name.to_owned(), scheme)).map_err(|error| error.to_string())
        };
        match (&self.scheme, wanted) {
            (Some(own), "") => Ok(own.clone()),
            (Some((own, _)), wanted) if own != wanted => Err(format!(
                "it has the scheme {own} and you want {wanted}: name the same, or none, at one of the ends"
            )),
            (None, "") => parse(SCHEME_DEFAULT),
            (Some(_) | None, wanted) => parse(wanted),
        }
    }

    /// The number of a mobile's address: the one it had, a free one, or that of somebody who was not here for long.
    fn number(&self, peer: NodeId) -> Option<usize> {
        let now = clock::now();
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((number, last)) = numbers.get_mut(&peer) {
            *last = now;
            return Some(*number);
        }
        let free = (1..=self.pool.mobiles_max()).find(|number| numbers.values().all(|(taken, _)| taken != number));
        let number = match free {
            Some(number) => number,
            None => {
                let oldest = numbers.iter().min_by_key(|(_, (_, last))| *last);
                let (id, (number, _)) = oldest.filter(|(_, (_, last))| now.since(*last) > ADDRESS_KEPT)?;
                let (id, number) = (*id, *number);
                numbers.remove(&id);
                number
            }
        };
        numbers.insert(peer, (number, now));
        Some(number)
    }
}

#[cfg(test)]
mod tests;
