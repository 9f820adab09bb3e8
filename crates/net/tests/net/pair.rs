//! Two machines that know each other, and a bound for every wait.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;
use wayfs_net::{Connection, Endpoint, NetConfig, NodeIdentity};

/// The longest that any test waits for one thing.
const PATIENCE: Duration = Duration::from_secs(8);

/// The outcome, or a panic that says what never came.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(outcome) => outcome,
        Err(_) => panic!("{what} did not come within {PATIENCE:?}"),
    }
}

pub(crate) fn endpoint(config: NetConfig) -> Endpoint {
    let identity = NodeIdentity::generate().unwrap();
    Endpoint::bind("127.0.0.1:0".parse().unwrap(), &identity, config).unwrap()
}

pub(crate) fn addr(endpoint: &Endpoint) -> SocketAddr {
    endpoint.local_addr().unwrap()
}

/// Both ends of one connection, and what they live on.
pub(crate) struct Pair {
    pub(crate) client: Endpoint,
    pub(crate) server: Endpoint,
    pub(crate) near: Connection,
    pub(crate) far: Connection,
}

pub(crate) async fn pair() -> Pair {
    pair_with(NetConfig::default(), NetConfig::default()).await
}

pub(crate) async fn pair_with(client: NetConfig, server: NetConfig) -> Pair {
    let (client, server) = (endpoint(client), endpoint(server));
    let to = addr(&server);
    pair_at(client, server, to).await
}

/// The server is dialled at an address that may be another's, who forwards.
pub(crate) async fn pair_at(client: Endpoint, server: Endpoint, to: SocketAddr) -> Pair {
    let addrs = [to];
    let (near, far) =
        soon("a connection", async { tokio::join!(client.connect(&addrs, server.id()), server.accept()) }).await;
    let far = far.unwrap();
    far.admit();
    Pair { near: near.unwrap(), far, client, server }
}
