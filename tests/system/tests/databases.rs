//! SQLite on two machines at one server, in each way to keep its journal.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::process::Command;
use std::time::Duration;
use wayfs_system_tests::{Site, busy, run_for, turns};

/// Longest time for a workload on a busy machine.
const BUSY: Duration = Duration::from_secs(240);

/// Proves [S-lock-order], [S-wal]: in turns, and with both at once, in every mode but the write-ahead log.
#[test]
fn sqlite_loses_no_transaction_in_any_journal_mode() {
    let site = Site::new();
    let script = r#"
import os, sqlite3, sys, threading, time
roots, rounds = sys.argv[1:3], int(sys.argv[3])
def connect(path, mode, synchronous):
    db = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
    assert db.execute("pragma journal_mode=" + mode).fetchone()[0] == mode
    db.execute("pragma synchronous=" + synchronous)
    return db
for mode, synchronous in [("delete", "full"), ("truncate", "full"), ("truncate", "normal"), ("persist", "normal"), ("memory", "off")]:
    paths = [os.path.join(root, "%s-%s.db" % (mode, synchronous)) for root in roots]
    dbs = [connect(paths[0], mode, synchronous)]
    dbs[0].execute("create table t(v)")
    dbs.append(connect(paths[1], mode, synchronous))
    for k in range(rounds):
        dbs[k % 2].execute("insert into t values(?)", (k,))
        got = dbs[(k + 1) % 2].execute("select count(*) from t").fetchone()[0]
        assert got == k + 1, (mode, synchronous, k, got)
    failed = []
    def work(n):
        try:
            db = connect(paths[n], mode, synchronous)
            for k in range(rounds // 2):
                db.execute("begin immediate")
                last = db.execute("select max(v) from t").fetchone()[0]
                db.execute("insert into t values(?)", (last + 1,))
                db.execute("commit")
        except Exception as error:
            failed.append(error)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failed, (mode, synchronous, failed)
    count = rounds + 2 * (rounds // 2)
    for db in dbs:
        assert db.execute("select count(*), count(distinct v) from t").fetchone() == (count, count), (mode, synchronous)
        assert db.execute("pragma integrity_check").fetchone()[0] == "ok"
        db.close()
for root in roots:
    left = [name for name in os.listdir(root) if not name.endswith((".db", ".db-journal"))]
    assert not left, left
"#;
    let roots = [0, 1].map(|client| site.root(client));
    let mut python = Command::new("python3");
    run_for(busy(BUSY), python.arg("-c").arg(script).args(&roots).arg(turns(20).to_string())).ok();
}
