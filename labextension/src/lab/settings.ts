/** The user's settings. */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { Token } from '@lumino/coreutils';
import { ISignal, Signal } from '@lumino/signaling';

/** The settings in `schema/settings.json`. None of them loosens approvals. */
interface Settings {
  /** Offer completions while a name is typed after `@`. */
  readonly completeOnAt: boolean;
  /** Offer actions below a cell that failed. */
  readonly errorActions: boolean;
  /** Notify of approvals that wait while the page is in the background. */
  readonly notify: boolean;
}

const DEFAULTS: Settings = { completeOnAt: true, errorActions: true, notify: true };

/** The current settings, and a signal for changes. */
export interface ISettings {
  readonly now: Settings;
  readonly changed: ISignal<ISettings, void>;
}

export const ISettings = new Token<ISettings>(
  'ipyagent:ISettings',
  "The user's settings of ipyagent."
);

class LoadedSettings implements ISettings {
  now = DEFAULTS;
  private changes = new Signal<ISettings, void>(this);

  constructor(registry: ISettingRegistry | null) {
    void registry?.load(settings.id).then(loaded => {
      const take = (): void => this.apply(loaded);
      loaded.changed.connect(take);
      take();
    });
  }

  get changed(): ISignal<ISettings, void> {
    return this.changes;
  }

  private apply({ composite }: ISettingRegistry.ISettings): void {
    this.now = { ...DEFAULTS, ...composite };
    this.changes.emit();
  }
}

export const settings: JupyterFrontEndPlugin<ISettings> = {
  id: 'ipyagent:settings',
  description: "Reads the user's settings, and announces changes.",
  autoStart: true,
  optional: [ISettingRegistry],
  provides: ISettings,
  activate: (_, registry: ISettingRegistry | null) => new LoadedSettings(registry)
};
