//! Contents that came: what waited for them goes on.

use crate::contents::Contents;
use crate::replica::Replica;
use crate::replica::errors::StepError;
use wayfs_types::{MetaStore, Top};

impl<S: MetaStore> Replica<S> {
    /// [`crate::Input::ContentsHere`].
    pub(crate) fn handle_contents_here(&mut self, tops: &[Top]) -> Result<(), StepError> {
        tops.iter().try_for_each(|top| self.handle_content_here(*top))
    }

    fn handle_content_here(&mut self, top: Top) -> Result<(), StepError> {
        let named = Contents::records_with(&mut self.core, top)?;
        if named.is_empty() {
            self.contents.announced.add(top, self.core.now);
            self.contents.owe_what_came_late(&mut self.core, top)?;
        }
        for record in named {
            let Some(missing) = Contents::missing(&mut self.core, record)? else {
                self.take_back(record)?;
                continue;
            };
            self.contents.settle_missing(&mut self.core, &mut self.children, record, &missing);
            if self.contents.keeper().is_some() {
                self.take_back(record)?;
                Contents::renew_previous(&mut self.core, missing.file, missing.version, &missing.content)?;
                self.contents.let_go_older(&mut self.core, record)?;
                Contents::tell_who_waits(&mut self.children, record, &missing);
            } else {
                self.contents.owe(&mut self.core, record, missing.file, missing.content)?;
            }
        }
        Ok(())
    }
}
