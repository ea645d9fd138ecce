/** The user's settings. */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { Token } from '@lumino/coreutils';
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

  follow(loaded: ISettingRegistry.ISettings): void {
    const take = (): void => {
      this.now = { ...DEFAULTS, ...loaded.composite };
      this.changed.emit();
    };
    loaded.changed.connect(take);
    take();
  }
}

export type ISettings = Settings;

export const ISettings = new Token<ISettings>(
  'ipyagent:ISettings',
  "The user's settings of ipyagent."
);

export const settings: JupyterFrontEndPlugin<ISettings> = {
  id: 'ipyagent:settings',
  description: "Reads the user's settings, and announces changes.",
  autoStart: true,
  optional: [ISettingRegistry],
  provides: ISettings,
  activate: (_, registry: ISettingRegistry | null) => {
    const followed = new Settings();
    void registry?.load(settings.id).then(loaded => followed.follow(loaded));
    return followed;
  }
};
