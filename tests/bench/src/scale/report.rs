//! Growth as a table and as JSON.

use super::Growth;
use super::counting::{CPU, NAMES};
use serde_json::{Value, json};

/// Kinds of machine, in the order in which their work is kept.
pub(crate) const ROLES: [&str; 3] = ["client", "station", "home"];

/// Prints Markdown: for each machine that works, what an operation costs at each size.
pub(crate) fn print(all: &[Growth]) {
    println!(
        "| operation | axis | size | machine | CPU us | gets | rows read | rows written | bytes written | messages | message bytes | CPU to the first |"
    );
    println!("| --- | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for growth in all {
        for (role, name) in ROLES.iter().enumerate() {
            for (size, measured) in &growth.at {
                let figures = measured.work[role].figures(measured.operations);
                if measured.work[role].inputs == 0 {
                    continue;
                }
                let first = growth.at[0].1.work[role].figures(growth.at[0].1.operations)[CPU];
                println!(
                    "| {} | {} | {size} | {name} | {:.2} | {:.2} | {:.2} | {:.2} | {:.0} | {:.3} | {:.0} | {:.2} |",
                    growth.cost.name(),
                    growth.cost.axis(),
                    figures[CPU],
                    figures[0],
                    figures[2],
                    figures[3],
                    figures[4],
                    figures[5],
                    figures[6],
                    figures[CPU] / first,
                );
            }
        }
    }
}

/// The same for programs, with every count.
pub(crate) fn json(all: &[Growth]) -> Value {
    let rows = all.iter().flat_map(|growth| {
        growth.at.iter().flat_map(move |(size, measured)| {
            ROLES.iter().enumerate().map(move |(role, name)| {
                let figures = measured.work[role].figures(measured.operations);
                let costs: serde_json::Map<String, Value> =
                    NAMES.iter().zip(figures).map(|(name, figure)| ((*name).to_owned(), json!(figure))).collect();
                json!({
                    "operation": growth.cost.name(), "axis": growth.cost.axis(), "size": size, "machine": name,
                    "operations": measured.operations, "per_operation": costs,
                })
            })
        })
    });
    rows.collect()
}
