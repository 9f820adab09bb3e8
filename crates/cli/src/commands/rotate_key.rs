//! `wayfs volume rotate-key`.

use super::{Context, write_out};
use crate::args::{Output, RotateKeyArgs};
use crate::config::{passphrase, passphrase_file};
use crate::failure::{Exit, Failure};
use serde_json::json;
use wayfs_server::{KeyState, Rotation, RotationError, rotate_key};

pub(super) fn run(context: &Context, args: &RotateKeyArgs) -> Result<(), Failure> {
    let rotation = match (args.yes, args.end) {
        (true, _) => Rotation::Renew,
        (false, true) => Rotation::End,
        (false, false) => Rotation::Look,
    };
    let passphrase = passphrase(passphrase_file(args.passphrase_file.clone()).as_deref())?;
    let state = rotate_key(&args.data, passphrase.as_ref(), rotation).map_err(|error| refused(&error))?;
    match context.global.output() {
        Output::Text => write_out(&told(&state, rotation)),
        Output::Json => {
            let former: Vec<String> = state.former.iter().map(ToString::to_string).collect();
            let report = json!({ "key": state.key.to_string(), "former": former, "volumes": state.volumes });
            write_out(&format!("{report}\n"))
        }
    }
}

fn told(state: &KeyState, rotation: Rotation) -> String {
    let mut text = format!("Key of the home: {}\n", state.key);
    for former in &state.former {
        text.push_str(&format!("Still known by:  {former}\n"));
    }
    text.push_str(match rotation {
        Rotation::Look => "Nothing was changed: --yes gives it another key, --end ends that it is known by those of before.\n",
        Rotation::Renew => {
            "The old key is gone from here. Start the server, make a new backup (older ones hold the old key), and when all members have \
             been there (`wayfs volume members VOLUME`) end the old key with --end.\n"
        }
        Rotation::End => "Members that have not heard of this key, and tickets of before, need new tickets (`wayfs volume ticket`).\n",
    });
    text
}

fn refused(error: &RotationError) -> Failure {
    let next = match error {
        RotationError::Start(_) => "Stop the server first (`wayfs stop`), or name another directory.",
        RotationError::Identity(_) => "Nothing was changed.",
        RotationError::IsStation(_) => "Only a server that is home of all its volumes can change its key.",
        RotationError::Broken(..) => "Repair it first (`wayfs doctor --repair`).",
    };
    Failure::new(Exit::Refused, error, next)
}
