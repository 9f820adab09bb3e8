//! The public face of the crate, over loopback.

mod connecting;
mod frames;
mod hostile;
mod outage;
mod pair;
mod proxy;
mod requests;
