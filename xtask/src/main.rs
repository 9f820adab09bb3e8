//! Development tasks: `cargo xtask …` (see `.cargo/config.toml`) or `cargo run --package xtask -- …`.

mod check_imports;
mod check_parameters;
mod circles;
mod explore;
mod mutants;
mod sim;
mod supply;
mod unused;
mod unused_pub;

use anyhow::{Result, bail};

const USAGE: &str = "usage: cargo run --package xtask -- check-imports | check-parameters | sim … | explore … | mutants … | notices [FILE] | sbom [FILE]";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((task, rest)) => match task.as_str() {
            "check-imports" => check_imports::main(),
            "check-parameters" => check_parameters::main(),
            "sim" => sim::main(rest),
            "explore" => explore::main(rest),
            "mutants" => mutants::main(rest),
            "notices" => supply::notices(rest),
            "sbom" => supply::bill_of_materials(rest),
            _ => bail!("unknown task `{task}`; {USAGE}"),
        },
        None => bail!(USAGE),
    }
}
