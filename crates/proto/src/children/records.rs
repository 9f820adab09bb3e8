//! Records that children send: who may send which, and what taking one sets off.

use crate::api::PeerId;
use crate::children::echo_filter::LEN_MIN;
use crate::children::{Child, ChildState, Children};
use crate::contents::{Contents, Source};
use crate::histories::Histories;
use crate::members::Members;
use crate::replica::Replica;
use crate::replica::errors::StepError;
use crate::state::log_entry::Attached;
use crate::state::of_record::content_of;
use wayfs_types::{Admitted, Content, MetaStore, Op, OriginId, Record, Seal};
use wayfs_wire::{SentRecord, Span};

impl<S: MetaStore> Replica<S> {
    pub(crate) fn handle_records(
        &mut self,
        peer: PeerId,
        child: OriginId,
        records: Vec<SentRecord>,
        spans: &[Span],
    ) -> Result<(), StepError> {
        let is_station = self.children.by_origin.get(&child).is_some_and(|row| row.is_station);
        let seals = Members::check_seals(&mut self.core, &mut self.children, peer, child, &records, spans)?;
        for SentRecord { record, held } in records {
            let origin = record.id.origin();
            if !is_station && origin != child {
                return Err(StepError::Peer(peer, format!("sent record {} of a foreign origin", record.id)));
            }
            if origin == self.core.config.origin || origin == OriginId::GENESIS {
                return Err(StepError::Peer(peer, format!("sent record {} in our own name", record.id)));
            }
            self.children.add_subject(&mut self.core, child, origin);
            self.core.state.stage_echo(origin);
            let id = record.id;
            let span = spans.iter().find(|span| span.origin == origin && span.through == id.sequence());
            let seal = seals.get(&id).copied();
            self.take_child_record(peer, child, SentRecord { record, held }, (span, seal))?;
            if let Some(span) = span {
                Histories::end_span(&mut self.core, id, span.chain)?;
            }
        }
        Ok(())
    }

    pub(crate) fn take_child_record(
        &mut self,
        peer: PeerId,
        child: OriginId,
        SentRecord { record, held }: SentRecord,
        (span, seal): (Option<&Span>, Option<Seal>),
    ) -> Result<(), StepError> {
        let (origin, is_station) = (record.id.origin(), self.children.is_station(child));
        let Some(image) = Children::origin_image(&mut self.core, origin)? else {
            return Err(StepError::Peer(
                peer,
                format!("sent record {} of an origin that is not known here", record.id),
            ));
        };
        if image.admitted == Admitted::Reader {
            // Asked of stations' records, too: none that keeps the rules has taken such a record.
            return Err(StepError::Peer(peer, format!("sent record {} of a member that may only read", record.id)));
        }
        if record.follows() <= image.applied {
            Histories::check_history(
                &mut self.core,
                &mut self.children,
                peer,
                child,
                &record,
                span.map(|span| span.chain),
            )?;
        }
        if record.id.sequence() <= image.applied {
            if let Some(position) = self.core.state.log().position_of(record.id)
                && self.core.state.log_entry(position)?.record != record
            {
                return Err(StepError::Peer(peer, format!("sent two records with the number {}", record.id)));
            }
            if held && is_station {
                self.contents.note_other_holder(&mut self.core, &mut self.children, &record, child)?;
            } else if held && let Some((file, content)) = crate::state::of_record::content_of(&record) {
                self.contents.note_held(&mut self.core, &mut self.children, child, record.id, file, content.clone())?;
            }
            Contents::account(&mut self.core, &mut self.children, child, record.id);
            return Ok(());
        }
        if record.follows() > image.applied {
            let text = format!("sent record {} but {} is the last that came", record.id, image.applied);
            return Err(StepError::Peer(peer, text));
        }
        Contents::account(&mut self.core, &mut self.children, child, record.id);
        if matches!(record.op, Op::Lost { .. }) {
            return Err(StepError::Peer(peer, format!("sent record {}, which only a home may write", record.id)));
        }
        let previous = Contents::previous_of(&mut self.core, &record)?;
        let effect = self.core.take_record(record.clone(), Attached { held, seal })?;
        let source = Source::Child { origin: child, is_station, held };
        let content = self.contents.note_content(&mut self.core, &mut self.children, &record, &effect, source)?;
        Contents::keep_previous(&mut self.core, &record, &effect, previous)?;
        let file = effect.file.or_else(|| crate::state::of_record::file_of(&record.op, record.id));
        if let Some(file) = file {
            if crate::state::of_record::content_of(&record).is_some() {
                self.contents.note_sharing(&mut self.children, child, file, record.id);
            }
            self.core.state.stage_output(crate::api::Output::Applied { file, record: record.id, content });
        }
        self.core.state.stage_marks(origin);
        if let Some(row) = self.children.by_origin.get_mut(&child) {
            row.note_brought(&record);
        }
        if !is_station {
            self.core.state.stage_taken(record.id);
        }
        Ok(())
    }
}

impl Child {
    /// A record came from the child and took effect.
    pub(crate) fn note_brought(&mut self, record: &Record) {
        let is_told = matches!(self.state, ChildState::Scanning | ChildState::Live);
        if let Some((_, Content::Inline(bytes))) = content_of(record)
            && bytes.len() >= LEN_MIN
            && is_told
        {
            self.echo_filter.add(record.id);
        }
    }
}
