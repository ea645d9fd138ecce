/** The user's settings. */
import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import { Signal } from '@lumino/signaling';

/** The settings in `schema/settings.json`. None of them loosens approvals. */
const DEFAULTS = {
  /** Offer completions while a name is typed after `@`. */
  completeOnAt: true,
  /** Offer actions below a cell that failed. */
  errorActions: true,
  /** Notify of approvals that wait while the page is in the background. */
  notify: true
};

/** The current settings, and a signal for changes. */
export class Settings {
  readonly changed = new Signal<this, void>(this);
  now: Readonly<typeof DEFAULTS> = DEFAULTS;

  constructor(registry: ISettingRegistry | null, id: string) {
    void registry?.load(id).then(loaded => {
      const take = (): void => {
        this.now = { ...DEFAULTS, ...loaded.composite };
        this.changed.emit();
      };
      loaded.changed.connect(take);
      take();
    });
  }
}
