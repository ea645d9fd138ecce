/** The person's settings, as they are now. */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { Token } from '@lumino/coreutils';
import { ISignal, Signal } from '@lumino/signaling';

/** What can be set: see `schema/settings.json`. None of it loosens what is asked. */
export interface Settings {
  /** Offer completions while a name is typed after `@`. */
  readonly completeOnAt: boolean;
  /** Offer actions below a cell that failed. */
  readonly errorActions: boolean;
  /** Notify of approvals that wait while the page is in the background. */
  readonly notify: boolean;
}

const DEFAULTS: Settings = { completeOnAt: true, errorActions: true, notify: true };

/** The settings in force, and when they change. */
export interface ISettings {
  readonly now: Settings;
  readonly changed: ISignal<ISettings, void>;
}

export const ISettings = new Token<ISettings>(
  'ipyagent:ISettings',
  "The person's settings of ipyagent."
);

class Live implements ISettings {
  now = DEFAULTS;
  private changes = new Signal<ISettings, void>(this);

  constructor(registry: ISettingRegistry | null) {
    void registry?.load(settings.id).then(loaded => {
      const take = (): void => this.take(loaded);
      loaded.changed.connect(take);
      take();
    });
  }

  get changed(): ISignal<ISettings, void> {
    return this.changes;
  }

  private take({ composite }: ISettingRegistry.ISettings): void {
    this.now = { ...DEFAULTS, ...composite };
    this.changes.emit();
  }
}

export const settings: JupyterFrontEndPlugin<ISettings> = {
  id: 'ipyagent:settings',
  description: "Reads the person's settings, and tells when they change.",
  autoStart: true,
  optional: [ISettingRegistry],
  provides: ISettings,
  activate: (_, registry: ISettingRegistry | null) => new Live(registry)
};
