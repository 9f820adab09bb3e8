//! The mobile: does the handshake, again and again, and runs the engine.

use crate::LinkError;
use crate::base::{Stopper, data_socket, random};
use crate::config::{MobileConfig, WINDOW_MAX};
use crate::engine::{Admission, Engine, Mtu, Order, Table};
use crate::greeting::{self, Answer, Hello, VERSION, Welcome};
use crate::host::{self, DefaultRoute};
use crate::keys::{Keys, Role};
use crate::news::News;
use crate::tun::Tun;
use crate::wake::{Inbox, Orders, orders};
use crate::{clock, state};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};
use wayfs_hop::Scheme;
use wayfs_net::{CloseCode, Endpoint, NetConfig, NodeIdentity};

/// Attempts at the first handshake, each of which tries the base's addresses for five seconds.
const FIRST_TRIES: u32 = 3;
/// How often a wait for the first handshake looks whether it is to end.
const STOP_LOOK: Duration = Duration::from_millis(50);
/// Longest time from a connection to the base's answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Shortest and longest time between attempts at a handshake when the base is silent.
const AGAIN_MIN: Duration = Duration::from_secs(1);
const AGAIN_MAX: Duration = Duration::from_secs(30);

/// A mobile that is in.
#[derive(Debug)]
pub struct StartedMobile {
    /// The device.
    pub tun: String,
    /// Its addresses.
    pub addresses: [IpAddr; 2],
    /// The base's addresses over the link.
    pub base: [IpAddr; 2],
    /// What is done about losses.
    pub scheme: String,
}

/// What a handshake needs.
struct Dialler {
    endpoint: Endpoint,
    identity: NodeIdentity,
    config: MobileConfig,
    life: u64,
}

/// What a handshake gave.
struct Joined {
    admission: Admission,
    welcome: Welcome,
    base: IpAddr,
}

/// Runs a mobile until it is stopped. `waits` gets what stops it, before the base is asked; `started` hears when the base answered and the device is
/// there.
///
/// # Errors
/// [`LinkError`] says what is missing, or what went away.
pub fn run_mobile(
    config: &MobileConfig,
    waits: impl FnOnce(Stopper),
    started: impl FnOnce(&StartedMobile),
) -> Result<(), LinkError> {
    config.common.settings.check()?;
    let identity = state::identity(&config.common.state)?;
    let news = News::listen(&config.common.socket)?;
    let tun = Tun::create(&config.common.tun)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(LinkError::io("start a thread for handshakes"))?;
    let endpoint = {
        let _inside = runtime.enter();
        bind_endpoint(&identity)?
    };
    let dialler = Dialler { endpoint: endpoint.clone(), identity, config: config.clone(), life: random() };
    let (orders, inbox) = orders().map_err(LinkError::io("make an event"))?;
    waits(Stopper { orders: orders.clone() });
    let joined = runtime.block_on(async {
        tokio::select! {
            joined = first(&dialler) => joined.map(Some),
            () = stopped(&inbox) => Ok(None),
        }
    })?;
    let Some(joined) = joined else {
        runtime.shutdown_timeout(Duration::from_secs(1));
        return Ok(());
    };
    let mtu = joined.welcome.mtu.clamp(crate::config::MTU_MIN, config.common.mtu);
    host::set_up(tun.name(), &joined.welcome.yours, mtu)?;
    let route = if config.default_route { Some(DefaultRoute::set(tun.name(), joined.base)?) } else { None };
    let any = if joined.base.is_ipv6() { SocketAddr::from(([0; 16], 0)) } else { SocketAddr::from(([0; 4], 0)) };
    let udp = data_socket(any)?;
    let redial = Arc::new(Notify::new());
    started(&StartedMobile {
        tun: tun.name().to_owned(),
        addresses: [joined.welcome.yours.v4.into(), joined.welcome.yours.v6.into()],
        base: [joined.welcome.mine.v4.into(), joined.welcome.mine.v6.into()],
        scheme: joined.welcome.scheme.clone(),
    });
    orders.give(Order::Admit(Box::new(joined.admission)));
    runtime.spawn(keep(dialler, orders, Arc::clone(&redial), joined.welcome));
    let engine = Engine {
        role: Role::Mobile,
        tun,
        udp,
        news,
        inbox,
        settings: config.common.settings,
        mtu: Mtu { wanted: mtu, now: mtu, look_at: clock::now(), here: None },
        redial: Some(redial),
        table: Table::default(),
    };
    let result = engine.run();
    drop(route);
    runtime.shutdown_timeout(Duration::from_secs(1));
    result
}

/// A socket for both families where there are both.
fn bind_endpoint(identity: &NodeIdentity) -> Result<Endpoint, LinkError> {
    let bind = |at: SocketAddr| Endpoint::bind(at, identity, NetConfig::default());
    bind(([0; 16], 0).into())
        .or_else(|_| bind(([0; 4], 0).into()))
        .map_err(|error| LinkError::Bind { address: "any port".into(), error: error.to_string() })
}

/// Until somebody asks for the end. Before the engine runs nobody else gives orders.
async fn stopped(inbox: &Inbox<Order>) {
    while inbox.take().is_none() {
        sleep(STOP_LOOK).await;
    }
}

async fn first(dialler: &Dialler) -> Result<Joined, LinkError> {
    let mut tries = 1;
    loop {
        match dialler.join().await {
            Err(LinkError::Unreachable(why)) if tries < FIRST_TRIES => {
                warn!(%why, "the base does not answer; trying again");
                tries += 1;
                sleep(AGAIN_MIN).await;
            }
            result => return result,
        }
    }
}

/// Does the handshake again: from time to time, and when the base is silent.
async fn keep(dialler: Dialler, orders: Orders<Order>, redial: Arc<Notify>, first: Welcome) {
    let mut wait = dialler.config.rekey_after;
    let mut again = AGAIN_MIN;
    loop {
        tokio::select! {
            () = sleep(wait) => {}
            () = redial.notified() => sleep(again).await,
        }
        match dialler.join().await {
            Ok(joined) if joined.welcome.yours == first.yours && joined.welcome.scheme == first.scheme => {
                orders.give(Order::Admit(Box::new(joined.admission)));
                (wait, again) = (dialler.config.rekey_after, AGAIN_MIN);
            }
            Ok(_) => {
                let why = "it gave other addresses or another scheme than before. Start the mobile again".to_owned();
                orders.give(Order::Fail(LinkError::Refused(why)));
                return;
            }
            Err(LinkError::Unreachable(why)) => {
                info!(%why, "the base does not answer a handshake");
                (wait, again) = (AGAIN_MAX, (again * 2).min(AGAIN_MAX));
            }
            Err(error) => {
                orders.give(Order::Fail(error));
                return;
            }
        }
    }
}

impl Dialler {
    async fn join(&self) -> Result<Joined, LinkError> {
        let ticket = &self.config.ticket;
        let unreachable = |why: String| LinkError::Unreachable(why);
        let connection = self.endpoint.connect(&ticket.addresses, ticket.base).await;
        let connection = connection.map_err(|error| unreachable(error.to_string()))?;
        let binding = connection.channel_binding();
        let common = &self.config.common;
        let ours = random() as u32;
        let hello = Hello {
            version: VERSION,
            ticket: *ticket.secret.id().as_bytes(),
            proof: ticket.secret.proof(&binding, self.identity.id()),
            life: self.life,
            session: ours,
            scheme: common.scheme.as_ref().map(|(name, _)| name.clone()).unwrap_or_default(),
            window: common.settings.window.unwrap_or(WINDOW_MAX),
            mtu: common.mtu,
        };
        let exchange = async {
            let (sender, mut receiver) = connection.control().ok_or(LinkError::Language("no control stream"))?;
            let broken = |error: wayfs_net::FrameError| unreachable(error.to_string());
            sender.send(greeting::encode(&hello).into()).await.map_err(broken)?;
            receiver.recv().await.map_err(broken)?.ok_or_else(|| unreachable("it closed the connection".into()))
        };
        let frame = timeout(ANSWER_WITHIN, exchange).await.map_err(|_| unreachable("no answer".into()))??;
        let base = connection.remote_addr().ip();
        connection.close(CloseCode::GOODBYE, "");
        let welcome = match greeting::decode_answer(&frame) {
            Some(Answer::Welcome(welcome)) => welcome,
            Some(Answer::Refused(why)) => return Err(LinkError::Refused(why)),
            None => return Err(LinkError::Language("its answer")),
        };
        let scheme: Scheme = welcome.scheme.parse().map_err(|_| LinkError::Language("the scheme"))?;
        let admission = Admission {
            peer: ticket.base,
            addresses: welcome.mine,
            life: welcome.life,
            scheme: (welcome.scheme.clone(), scheme),
            split: None,
            window: welcome.window.min(WINDOW_MAX),
            keys: Keys::new(Role::Mobile, &binding),
            ours,
            theirs: welcome.session,
            at: Some(SocketAddr::new(base, welcome.port)),
        };
        Ok(Joined { admission, welcome, base })
    }
}
