/** The panel's sessions, with a button that resumes one. */
import type { SessionLine } from '../../protocol';
import { h, Slot, Views } from '../../view/dom';
import { button } from '../../view/form';
import { PanelActions, PanelState, Section, titleWithNotes } from './section';

interface Item {
  readonly session: SessionLine;
  readonly canResume: boolean;
}

export class SessionsSection {
  private list = h('ul', { class: 'ipyagent-panel-list' });
  private sessions: Views<Item, SessionRow>;
  private section = new Section('sessions', 'Sessions', this.list);

  readonly element = this.section.element;

  constructor(actions: PanelActions) {
    const make = (): SessionRow => new SessionRow(actions);
    this.sessions = new Views(this.list, make, ({ session }) => session.id);
  }

  update({ overview, isReachable }: PanelState): void {
    const sessions = overview?.sessions ?? [];
    const isRunning = overview?.runs.some(({ live }) => live) ?? false;
    this.section.show(sessions.length > 0, `${sessions.length}`);
    const items = sessions.map(session => ({
      session,
      canResume: isReachable && !isRunning && !session.current && !session.ended
    }));
    this.section.keepFocus(() => this.sessions.update(items));
  }
}

class SessionRow {
  readonly element = h('li', { class: 'ipyagent-panel-row', 'data-ipyagent': 'panel-session' });

  private row = new Slot(this.element);

  constructor(private actions: PanelActions) {}

  update({ session, canResume }: Item): void {
    const { id, name, current, ended, at } = session;
    this.element.dataset.state = current ? 'current' : ended ? 'ended' : 'open';
    const notes = [...(current ? ['current'] : ended ? ['ended'] : []), when(at)];
    this.row.show([name, notes, canResume], () => [
      titleWithNotes(name || id.slice(0, 8), notes),
      canResume
        ? button('resume', 'Go on', `Go on with the session ${name}`, () => this.actions.resume(id))
        : null
    ]);
  }
}

/** Format today's times as time, others as date. */
function when(at: string): string {
  const moment = new Date(at);
  const isToday = moment.toDateString() === new Date().toDateString();
  return isToday
    ? moment.toTimeString().slice(0, 5)
    : moment.toLocaleDateString(undefined, { dateStyle: 'medium' });
}
