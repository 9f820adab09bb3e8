//! A C program to be copied, read and compiled: made from a seed, so that every machine has the same.
//!
//! The Andrew benchmark of the Fluid Replication thesis (5.3.1) used the sources of gnuchess, configured: 483 KB, 866 KB with
//! objects. [`CProgram::of_the_benchmark`] has that size and shape: some 70 files in a few directories, of which 51 are compiled, with
//! headers of its own and of the system's, comments, tables of numbers, and a Makefile that needs no configuration. Its text
//! packs about as well as real sources do (gnuchess's archive is a quarter of its files; a test holds ours to that), which
//! matters to file systems that compress what they send.

mod functions;
mod prose;

use crate::LabError;
use functions::Function;
use prose::Prose;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Directories of modules.
const PARTS: [&str; 5] = ["board", "search", "book", "terminal", "store"];
/// Bytes of modules, over and over: most are short, a few are long, 8.1 KB is the mean.
const MODULE_LENS: [usize; 10] = [3_000, 5_500, 4_200, 9_000, 6_800, 12_500, 3_800, 7_500, 20_000, 8_700];
/// Modules of the benchmark's program; its main file is compiled, too.
const MODULES: usize = 50;
/// The seed of the benchmark's program.
const SEED: u64 = 483;

/// The sources of a C program, by path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CProgram {
    files: BTreeMap<PathBuf, String>,
}

impl CProgram {
    /// The program of the Andrew benchmark.
    pub(crate) fn of_the_benchmark() -> Self {
        Self::new(MODULES, SEED)
    }

    /// A program of so many modules, each a file to compile beside the main one.
    pub fn new(modules: usize, seed: u64) -> Self {
        let mut prose = Prose::new(seed);
        let mut program = Self { files: BTreeMap::new() };
        let mut names = Vec::new();
        for number in 0..modules {
            let part = PARTS[number % PARTS.len()];
            let name = format!("{}_{}", part, prose.name());
            let text = module(&name, part, MODULE_LENS[number % MODULE_LENS.len()], &mut prose);
            program.add(format!("src/{part}/{name}.c"), text);
            names.push((part, name));
        }
        for part in PARTS {
            program.add(format!("include/{part}.h"), part_header(part, &names, &mut prose));
            program.add(format!("doc/{part}.txt"), prose.paragraphs(6));
        }
        program.add("include/common.h", COMMON.to_owned());
        program.add("config.h", CONFIG.to_owned());
        program.add("src/main.c", main_file(&names));
        program.add("Makefile", makefile(&names));
        program.add("README", prose.paragraphs(8));
        program.add("NEWS", prose.paragraphs(20));
        program
    }

    /// Its files, by path.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.files.iter().map(|(path, text)| (path.as_path(), text.as_str()))
    }

    /// Bytes of all files.
    #[expect(clippy::len_without_is_empty, reason = "no program is empty")]
    pub fn len(&self) -> usize {
        self.files.values().map(String::len).sum()
    }

    /// Files that are compiled.
    pub fn units(&self) -> usize {
        self.files.keys().filter(|path| path.extension().is_some_and(|it| it == "c")).count()
    }

    /// Writes it into a directory, which is made if it is not there.
    ///
    /// # Errors
    /// [`LabError::Io`] if it cannot be written.
    pub fn write(&self, directory: &Path) -> Result<(), LabError> {
        for (path, text) in self.files() {
            let path = directory.join(path);
            let parent = path.parent().unwrap_or(directory);
            std::fs::create_dir_all(parent).map_err(LabError::io(format!("make {}", parent.display())))?;
            std::fs::write(&path, text).map_err(LabError::io(format!("write {}", path.display())))?;
        }
        Ok(())
    }

    fn add(&mut self, path: impl Into<PathBuf>, text: String) {
        self.files.insert(path.into(), text);
    }
}

/// A file to compile, of about so many bytes.
fn module(name: &str, part: &str, len: usize, prose: &mut Prose) -> String {
    let mut text = format!("/* {name}.c\n{} */\n\n", prose.comment(8));
    text +=
        "#include \"config.h\"\n#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\n";
    let _ = writeln!(text, "#include \"common.h\"\n#include \"{part}.h\"\n");
    let mut calls = String::new();
    while text.len() < len {
        let function = Function::write(name, prose);
        text += &function.text;
        let _ = writeln!(calls, "    sum = mix(sum, {}(state, sum));", function.name);
    }
    let _ = write!(text, "uint32_t {name}_run(struct state *state)\n{{\n    uint32_t sum = {}u;\n\n", prose.number());
    text + &calls + "    return sum;\n}\n"
}

/// What the modules of a part offer, and a few types of its own.
fn part_header(part: &str, names: &[(&str, String)], prose: &mut Prose) -> String {
    let guard = part.to_uppercase();
    let mut text = format!(
        "/* {part}.h\n{} */\n#ifndef {guard}_H\n#define {guard}_H\n\n#include \"common.h\"\n\n",
        prose.comment(4)
    );
    for _ in 0..4 {
        let (name, first, second) = (prose.name(), prose.name(), prose.name());
        let _ = write!(
            text,
            "/*{} */\nstruct {part}_{name} {{\n    uint32_t {first}_;\n    uint16_t {second};\n",
            prose.comment(1)
        );
        let _ = write!(text, "    struct {part}_{name} *next;\n}};\n\n");
    }
    for (_, name) in names.iter().filter(|(of, _)| *of == part) {
        let _ = writeln!(text, "uint32_t {name}_run(struct state *state);");
    }
    text + "\n#endif\n"
}

fn main_file(names: &[(&str, String)]) -> String {
    let mut text =
        String::from("#include \"config.h\"\n#include <stdio.h>\n#include <string.h>\n\n#include \"common.h\"\n");
    for part in PARTS {
        let _ = writeln!(text, "#include \"{part}.h\"");
    }
    text +=
        "\nint main(void)\n{\n    struct state state;\n    uint32_t sum = 1;\n\n    memset(&state, 0, sizeof state);\n";
    for (_, name) in names {
        let _ = writeln!(text, "    sum = mix(sum, {name}_run(&state));");
    }
    text + "    printf(\"%s %08x\\n\", PACKAGE_STRING, (unsigned)sum);\n    return 0;\n}\n"
}

/// Every object is older than its source and every header, as a configured program's makefile has it.
fn makefile(names: &[(&str, String)]) -> String {
    let mut text = String::from(
        "# Configured for this machine.\nCC = gcc\nCFLAGS = -O2 -Wall -I. -Iinclude\nOBJECTS = src/main.o",
    );
    for (part, name) in names {
        let _ = write!(text, " \\\n\tsrc/{part}/{name}.o");
    }
    let headers: Vec<String> = PARTS.iter().map(|part| format!("include/{part}.h")).collect();
    let _ = writeln!(text, "\nHEADERS = config.h include/common.h {}\n", headers.join(" "));
    text += "chess: $(OBJECTS)\n\t$(CC) -o $@ $(OBJECTS)\n\n$(OBJECTS): $(HEADERS)\n\n";
    text + ".c.o:\n\t$(CC) $(CFLAGS) -c -o $@ $<\n\nclean:\n\trm -f chess $(OBJECTS)\n"
}

const CONFIG: &str = "/* config.h: written by configure. */
#define PACKAGE \"chess\"
#define PACKAGE_STRING \"chess 5\"
#define HAVE_STDINT_H 1
#define HAVE_STRING_H 1
#define HAVE_UNISTD_H 1
#define SIZEOF_LONG 8
#define STDC_HEADERS 1
";

const COMMON: &str = "/* common.h: what every part uses. */
#ifndef COMMON_H
#define COMMON_H

#include <stddef.h>
#include <stdint.h>

#define SQUARES 64
#define LINE_MAX_LEN 160

/* What a run carries from function to function. */
struct state {
    uint32_t squares[SQUARES];
    uint32_t counts[SQUARES];
    char line[LINE_MAX_LEN];
    size_t used;
};

/* Adds a value to a running sum. */
static inline uint32_t mix(uint32_t sum, uint32_t value)
{
    sum ^= value + 0x9e3779b9u + (sum << 6) + (sum >> 2);
    return sum;
}

#endif
";

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_benchmarks_program_has_the_published_size_and_repeats() {
        let program = CProgram::of_the_benchmark();
        assert!((470_000..500_000).contains(&program.len()), "{}", program.len());
        assert_eq!(program.units(), 51);
        assert!((60..80).contains(&program.files().count()), "{}", program.files().count());
        assert_eq!(program, CProgram::of_the_benchmark());
        assert_ne!(CProgram::new(3, 1), CProgram::new(3, 2));
    }

    #[test]
    fn it_packs_about_as_well_as_real_sources_do() {
        let directory = tempfile::tempdir().unwrap();
        let program = CProgram::of_the_benchmark();
        let all: String = program.files().map(|(_, text)| text).collect();
        std::fs::write(directory.path().join("all"), &all).unwrap();
        let packed = Command::new("gzip").arg("-c").arg(directory.path().join("all")).output().unwrap();
        let share = packed.stdout.len() as f64 / all.len() as f64;
        assert!((0.2..0.32).contains(&share), "{share}");
    }

    #[test]
    fn it_compiles_without_warnings_and_says_the_same_every_time() {
        if Command::new("gcc").arg("--version").output().is_err() {
            eprintln!("SKIPPED: no gcc");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        CProgram::new(12, 1).write(directory.path()).unwrap();
        let made = Command::new("make")
            .arg("CFLAGS=-O1 -Wall -Werror -I. -Iinclude")
            .current_dir(&directory)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let run = || Command::new(directory.path().join("chess")).output().unwrap();
        let (first, second) = (run(), run());
        assert!(first.status.success());
        assert!(String::from_utf8_lossy(&first.stdout).starts_with("chess 5 "));
        assert_eq!(first.stdout, second.stdout);
    }
}
