//! What follows from an input once it is one batch of the store.

use crate::api::{Changed as What, Output};
use crate::contents::Contents;
use crate::contents::replaced::Superseded;
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::state::committing::Committed;
use crate::state::overlay::Changed;
use crate::state::staged::{KernelKnows, Staged};
use wayfs_types::{Image, Key, MetaStore, StorageError, Ticket};

impl<S: MetaStore> Replica<S> {
    /// Makes what this input did one batch of the store, and carries out what follows from it.
    pub(crate) fn commit(&mut self) -> Result<(), StorageError> {
        let Committed { staged, changed } = self.core.state.commit(self.core.now)?;
        if let Some(watches) = self.watches.kept_mut() {
            watches.committed();
        }
        self.uplink.committed();
        self.histories.committed();
        self.locks.committed();
        self.contents.committed();
        self.carry_out(staged, &changed)
    }

    fn carry_out(&mut self, staged: Staged, changed: &[Changed]) -> Result<(), StorageError> {
        if let Some(gap) = staged.gap {
            self.histories.note_gap_written(gap);
        }
        for found in staged.found {
            self.histories.note_found_kept(&found);
        }
        self.contents.supersede(staged.superseded);
        self.contents.supersede_unseen(&self.core, staged.noted);
        for (ask, verdict, listed) in staged.answered {
            self.requests.answered(ask, verdict, listed);
        }
        self.announce(changed, &staged.kernel);
        self.core.outputs.extend(staged.outputs);
        let affected = self.children.route(changed, &staged.echo);
        self.children.block_on_callbacks(&self.core, &staged.taken, &affected);
        self.children.note_marks_moved(staged.marks);
        if changed.iter().any(|change| matches!(change.key, Key::Origin(_))) {
            self.handle_origins_changed(changed);
            self.handle_quotas_changed(changed)?;
        }
        self.end_moved_parts(changed)?;
        if staged.marks_moved { Contents::advance_tallies(&mut self.core) } else { Ok(()) }
    }

    /// Tells the kernel and the log of people what changed under them.
    pub(crate) fn announce(&mut self, changed: &[Changed], KernelKnows { own, learned }: &KernelKnows) {
        if changed.is_empty() {
            return;
        }
        self.core
            .outputs
            .extend(crate::state::happenings::happenings(changed, learned).into_iter().map(Output::Happened));
        // Where the whole tree is no kernel keeps any of it: what was looked at it keeps by our word.
        let is_news = !*own && self.watches.kept().is_some();
        for change in changed {
            match (&change.key, &change.old, &change.new) {
                (Key::Conflict(conflict), None, Some(new)) => {
                    self.core.state.note_conflict();
                    match new {
                        Image::Conflict(report) if report.is_loss() => {
                            self.contents.announce_loss(&mut self.core, *conflict, report)
                        }
                        Image::Inode(_) | Image::Entry(_) | Image::Conflict(_) | Image::Origin(_) => {
                            self.core.outputs.push_back(Output::Conflict { conflict: *conflict })
                        }
                    }
                }
                (Key::Conflict(_), Some(old), None) => {
                    self.core.state.note_conflict_over();
                    if matches!(old, Image::Conflict(report) if report.is_loss()) {
                        self.core.state.note_loss_over();
                    }
                }
                (Key::Inode(file), Some(Image::Inode(old)), new) => {
                    let is_kept = matches!(new, Some(Image::Inode(new)) if new.version == old.version && new.content == old.content);
                    if !is_kept {
                        let by = match new {
                            Some(Image::Inode(new)) if !new.is_removed() => new.content.root().map(|_| new.version),
                            _ => None,
                        };
                        self.contents.supersede(Superseded::new(old.version, &old.content, by));
                    }
                    if is_news {
                        let what = if is_kept { What::Attributes } else { What::Content };
                        self.core.outputs.push_back(Output::InvalidateInode { file: *file, what });
                    }
                }
                (Key::Entry(parent, name), old, _) => {
                    if let Some(watches) = self.watches.kept_mut() {
                        watches.forget_absence(*parent, name);
                    }
                    let may_be_learned = is_news && old.is_none() && !learned.is_empty();
                    let is_learned = may_be_learned && learned.contains(&(*parent, name.clone()));
                    if is_news && !is_learned {
                        self.core.outputs.push_back(Output::InvalidateEntry { parent: *parent, name: name.clone() });
                    }
                }
                (Key::Inode(_) | Key::Conflict(_) | Key::Origin(_), ..) => {}
            }
        }
    }

    pub(crate) fn handle_stored(&mut self, ticket: Ticket) -> Result<(), StorageError> {
        self.core.state.note_stored(ticket);
        self.requests.note_levels_moved();
        self.children.release_gated(&mut self.core);
        if self.core.state.log().newest().is_some() {
            // What was sent ahead of our disk counts as safe from here on.
            Contents::advance_tallies(&mut self.core)?;
            self.uplink.trim_log(&mut self.core)?;
        }
        Ok(())
    }
}

impl<S: MetaStore> Core<S> {
    /// Asks for a sync if someone waits for a batch that is not durable and no sync is under way for it.
    pub(crate) fn ask_sync(&mut self) {
        if let Some(ticket) = self.state.take_due_sync() {
            self.outputs.push_back(Output::Sync { ticket });
        }
    }
}
