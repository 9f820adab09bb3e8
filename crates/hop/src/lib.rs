//! A lossy last hop, repaired: what a base station and a mobile host do about it, without input, output or clocks.
//!
//! Two families:
//! * [`Snoop`] at the base station alone reads TCP, keeps segments, and sends again what the mobile's acknowledgements ask for
//!   (`snoop`, `snoop-sack`, and with duplicates passed on a plain link layer); or only tells losses of the hop from others (`eln`).
//! * [`Arq`] at both ends of the hop numbers frames of any traffic, acknowledges and repeats them (`ll`, `ll-order`, `ll-sack`, `ours`);
//!   [`Air`] serves many of them in turn and leaves out those whose channel is bad.
//!
//! Beside them [`Relay`] joins two connections at the base station (`split`), and [`Code`] adds packets from which lost ones can be
//! computed (`fec`). [`Scheme`] has the names. The driver, live or simulated, moves packets: time and frames come in as
//! arguments, frames and [`Signal`]s are polled. Every queue and every wait has a bound.

mod air;
mod arq;
mod blocks;
mod code;
mod codec;
mod estimate;
mod frame;
mod holes;
mod ip;
mod pace;
mod paced;
mod packet;
mod relay;
mod scheme;
mod signal;
mod snoop;

pub use air::{Air, AirConfig};
pub use arq::{Arq, ArqConfig, ArqStatistics, Losses, Measured, Order};
pub use blocks::{BlockStatistics, Blocks};
pub use code::{Code, CodeError, Shape};
pub use codec::{FRAME_HEADER_LEN, FrameError, PACKET_HEADER_LEN, decode_frame, encode_frame};
pub use frame::{Frame, Report};
pub use ip::{IpError, IpPacket, PACKET_LEN_MAX};
pub use pace::{Arrived, Pace};
pub use paced::{Paced, QueueLimit};
pub use packet::{Destination, Flow, Packet, Sacks, Span, TcpHeader};
pub use relay::{Relay, RelayEnd, RelayStep};
pub use scheme::{Scheme, SchemeError};
pub use signal::Signal;
pub use snoop::{Acknowledgements, Duplicates, Repair, Snoop, SnoopConfig, SnoopStatistics};
